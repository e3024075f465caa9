// What each device did with its time: busy, or idle and why.
import { BarsChart } from "../charts/bars";
import { Chart } from "../charts/figure";
import { ns, pct, title } from "../format";
import { fields, Fields, num, rowsOf } from "../json";

export function deviceTime(report: Fields): Chart | null {
  const devices = rowsOf(fields(report["timeline"])["devices"]);
  const causes = [...new Set(devices.flatMap((device) => Object.keys(fields(device["idle_by_cause"]))))]
    .filter((cause) => devices.some((device) => num(fields(device["idle_by_cause"])[cause])));
  if (!devices.length) return null;
  const names = ["busy", ...causes.map((cause) => `idle: ${title(cause)}`)];
  return new BarsChart({ title: "device", parts: names, format: pct, full: 100, bars: devices.map((device) => {
    const window = num(device["window_ns"]) || 1;
    const idle = fields(device["idle_by_cause"]);
    const times = [num(device["busy_ns"]) ?? 0, ...causes.map((cause) => num(idle[cause]) ?? 0)];
    return { name: `rank ${device["rank"]}, device ${device["device"]}`, parts: times.map((time) => (100 * time) / window),
      label: `${pct(num(device["busy_pct"]) ?? 0)} busy`,
      words: times.map((time, i) => `${names[i]} ${ns(time)}`).filter((_, i) => times[i]).join(", ") };
  }) });
}
