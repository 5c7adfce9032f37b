// SPDX-License-Identifier: MIT
// What speedscope reads: node speedscope.js RELEASE_FOLDER FILE… prints JSON: by file, the weight of
// each profile. Its bundle is made for a browser: the object with the importer is caught when the
// bundle defines it, and all that would be drawn is nothing.
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [folder, ...files] = process.argv.slice(2);
let importer = null;
const define = Object.defineProperty;
Object.defineProperty = (object, key, descriptor) => {
  if (key === "importProfilesFromArrayBuffer") importer = object;
  return define.call(Object, object, key, descriptor);
};
const nothing = () => new Proxy(function () {}, {
  get: (target, key) => key === Symbol.toPrimitive ? () => "" : key === "then" ? undefined : nothing(),
  apply: nothing, construct: nothing, set: () => true, has: () => true,
});
globalThis.document = nothing();
globalThis.window = globalThis.self = globalThis;
globalThis.location = { hash: "", search: "", protocol: "file:", href: "file:///", pathname: "/" };
console.log = () => {};
process.on("uncaughtException", () => {});
process.on("unhandledRejection", () => {});
const bundle = fs.readdirSync(folder).find(name => /^speedscope-.*\.js$/.test(name));
try {
  vm.runInThisContext(fs.readFileSync(path.join(folder, bundle), "utf8"));
} catch (error) {
  // What draws fails.
}
setTimeout(async () => {
  const read = {};
  for (const file of files) {
    const bytes = fs.readFileSync(file);
    const group = await importer.importProfilesFromArrayBuffer(path.basename(file),
      bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
    read[path.basename(file)] = group.profiles.map(profile => [profile.getName(), profile.getTotalWeight()]);
  }
  fs.writeSync(1, JSON.stringify(read));
  process.exit(0);
}, 300);
