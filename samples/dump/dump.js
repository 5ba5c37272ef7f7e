// Dump queries before and after the rotation as JSON; shape is [heads, L, D]. WebGPU: map the buffer first.
const fs = require("fs");

function dump(before, after, shape, path = "dump.json") {
  const tensor = (data) => ({ shape, data: Array.from(data) });
  fs.writeFileSync(path, JSON.stringify({ q_before: tensor(before), q_after: tensor(after) }));
}

module.exports = { dump };
