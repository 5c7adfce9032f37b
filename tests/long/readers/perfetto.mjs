// SPDX-License-Identifier: MIT
// What Perfetto's trace processor makes of a trace: node perfetto.mjs FOLDER FILE QUERY… prints JSON:
// the rows of each query. FOLDER has it as WebAssembly, made for a worker of a browser.
import { MessageChannel } from "worker_threads";
import fs from "fs";
import path from "path";
import url from "url";

const [folder, file, ...queries] = process.argv.slice(2);
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = function () {};
globalThis.location = { href: url.pathToFileURL(folder).href };
globalThis.wasmOfTraceProcessor = fs.readFileSync(path.join(folder, "trace_processor.wasm"));
console.log = console.warn = () => {};
(0, eval)(fs.readFileSync(path.join(folder, "engine_bundle.node.js"), "utf8")
  .replaceAll("hasMemory64Support();", "false;")
  .replace("locateFile: (s) => s,", "locateFile: (s) => s, wasmBinary: globalThis.wasmOfTraceProcessor,"));
const { EngineBase } = await import(url.pathToFileURL(path.resolve(folder, "engine.mjs")));
const { port1, port2 } = new MessageChannel();
class Engine extends EngineBase {
  get mode() { return "WASM"; }
  get id() { return "test"; }
  rpcSendRequestBytes(bytes) { port1.postMessage(bytes); }
  [Symbol.dispose]() {}
}
const engine = new Engine();
port1.on("message", message => engine.onRpcResponseBytes(message));
self.onmessage({ data: {
  postMessage: bytes => port2.postMessage(bytes),
  set onmessage(take) { port2.on("message", data => take({ data })); },
} });
await engine.parse(new Uint8Array(fs.readFileSync(file)));
await engine.notifyEof();
const answers = [];
for (const query of queries) {
  const result = await engine.query(query);
  const rows = [];
  for (const row = result.iter({}); row.valid(); row.next())
    rows.push(result.columns().map(column => {
      const value = row.get(column);
      return typeof value === "bigint" ? Number(value) : value;
    }));
  answers.push(rows);
}
fs.writeSync(1, JSON.stringify(answers));
process.exit(0);
