// Rectangles as instances of one square, drawn by the graphics device.
import { el } from "../dom";
import { Backend } from "./backend";
import { Frame } from "./frame";

const VERTEX = `#version 300 es
in vec4 edges;
in vec4 colour;
uniform vec2 size;
out vec4 shade;
void main() {
  vec2 corner = vec2((gl_VertexID & 1) == 0 ? edges.x : edges.z, (gl_VertexID & 2) == 0 ? edges.y : edges.w);
  gl_Position = vec4(corner.x / size.x * 2.0 - 1.0, 1.0 - corner.y / size.y * 2.0, 0.0, 1.0);
  shade = colour;
}`;
const FRAGMENT = `#version 300 es
precision mediump float;
in vec4 shade;
out vec4 seen;
void main() { seen = shade; }`;
// Names of drivers that draw with the processor.
const SOFTWARE = /swiftshader|llvmpipe|softpipe|software|basic render/i;

function isSoftware(gl: WebGL2RenderingContext): boolean {
  const info = gl.getExtension("WEBGL_debug_renderer_info");
  return SOFTWARE.test(String(gl.getParameter(info ? info.UNMASKED_RENDERER_WEBGL : gl.RENDERER)));
}

function programOf(gl: WebGL2RenderingContext): WebGLProgram | null {
  const program = gl.createProgram();
  if (!program) return null;
  for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]] as const) {
    const shader = gl.createShader(kind);
    if (!shader) return null;
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.bindAttribLocation(program, 0, "edges");
  gl.bindAttribLocation(program, 1, "colour");
  gl.linkProgram(program);
  return gl.getProgramParameter(program, gl.LINK_STATUS) ? program : null;
}

export class Webgl implements Backend {
  name = "webgl2";
  ctx = null;
  private buffers: (WebGLBuffer | null)[];
  private size: WebGLUniformLocation | null;

  private constructor(readonly canvas: HTMLCanvasElement, private gl: WebGL2RenderingContext, program: WebGLProgram) {
    this.buffers = [gl.createBuffer(), gl.createBuffer()];
    this.size = gl.getUniformLocation(program, "size");
    gl.useProgram(program);
    for (const i of [0, 1]) {
      gl.enableVertexAttribArray(i);
      gl.vertexAttribDivisor(i, 1);
    }
  }

  static make(hardwareOnly: boolean): Webgl | null {
    const canvas = el("canvas");
    const gl = canvas.getContext("webgl2", { alpha: false, antialias: false, depth: false,
      failIfMajorPerformanceCaveat: hardwareOnly });
    if (!gl || (hardwareOnly && isSoftware(gl))) return null;
    const program = programOf(gl);
    return program && new Webgl(canvas, gl, program);
  }

  resize(width: number, height: number): void {
    this.canvas.width = width;
    this.canvas.height = height;
    this.gl.viewport(0, 0, width, height);
    this.gl.uniform2f(this.size, width, height);
  }

  draw(frame: Frame, paper: number): void {
    const { gl } = this;
    gl.clearColor((paper & 255) / 255, ((paper >> 8) & 255) / 255, ((paper >> 16) & 255) / 255, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[0] ?? null);
    gl.bufferData(gl.ARRAY_BUFFER, frame.edges.subarray(0, 4 * frame.n), gl.STREAM_DRAW);
    gl.vertexAttribPointer(0, 4, gl.SHORT, false, 0, 0);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[1] ?? null);
    gl.bufferData(gl.ARRAY_BUFFER, new Uint8Array(frame.colours.buffer, 0, 4 * frame.n), gl.STREAM_DRAW);
    gl.vertexAttribPointer(1, 4, gl.UNSIGNED_BYTE, true, 0, 0);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, frame.n);
  }
}
