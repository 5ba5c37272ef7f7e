// Test a port against the golden suite: node runner.js FOLDER [--mistake]
// The port here is the naive one: angles in float32. It passes near 0 and fails where float32 does.
"use strict";
const fs = require("fs");
const path = require("path");
const folder = process.argv[2] || "golden";
const mistake = process.argv.includes("--mistake"); // the base left at 10000

// ---- the port under test: replace these two functions by your own ----
function frequencies(p) {
  const f = Math.fround, dim = p.dim, base = mistake ? 10000 : p.base;
  const inverse = Array.from({ length: dim / 2 }, (_, k) => f(1 / f(Math.pow(base, (2 * k) / dim))));
  return p.scaling === "linear" ? inverse.map((x) => f(x / p.factor)) : inverse;
}
function table(p) {
  const f = Math.fround, inverse = frequencies(p);
  const angles = p.positions.flatMap((place) => inverse.map((x) => f(f(place) * x)));
  return { cos: angles.map((x) => f(Math.cos(x))), sin: angles.map((x) => f(Math.sin(x))) };
}
// -----------------------------------------------------------------------

const index = JSON.parse(fs.readFileSync(path.join(folder, "index.json"), "utf8"));
const known = new Set(["none", "linear"]);
let failed = 0, passed = 0, left = 0;
for (const entry of index.cases) {
  const p = entry.parameters || {};
  const plain = entry.scheme === "rope" && known.has(p.scaling) && p.layout === "compact" && p.positions &&
    !entry.edits && !entry.settings && !p.partial_rotary_factor && !p.mrope_section;
  if (!plain) { left += 1; continue; }
  const file = Object.keys(entry.files).find((name) => name.endsWith(".json"));
  const golden = JSON.parse(fs.readFileSync(path.join(folder, file), "utf8")).tensors;
  const found = golden.cos ? table(p) : { inv_freq: frequencies(p) };
  let worst = 0, at = "";
  for (const name of Object.keys(found)) {
    found[name].forEach((value, k) => {
      const error = Math.abs(value - golden[name].decimal[k]);
      if (!(error <= worst)) { worst = error; at = `${name}[${k}]`; }
    });
  }
  const ok = worst <= entry.tolerances.float32;
  const excuse = !ok && worst <= entry.tolerances.float32_arithmetic ? " (float32 arithmetic explains it)" : "";
  console.log(`${ok ? "passed" : "FAILED"}  ${entry.name}  off by ${worst.toExponential(1)}${ok ? "" : ` at ${at}`}${excuse}`);
  ok ? passed++ : failed++;
}
console.log(`${passed} passed, ${failed} failed, ${left} not tried`);
process.exit(failed ? 1 : 0);
