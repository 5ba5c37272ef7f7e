// Heatmaps: draw the values of each table on its canvas, and tell the one under the pointer.
"use strict";

function floats(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Float32Array(bytes.buffer); // little-endian, as every browser's machine is
}

function colour(palette, share) {
  const place = Math.min(Math.max(share, 0), 1) * (palette.length - 1);
  const low = Math.floor(place), high = Math.min(low + 1, palette.length - 1);
  return [0, 1, 2].map((k) => Math.round(palette[low][k] + (place - low) * (palette[high][k] - palette[low][k])));
}

function draw(canvas, table, values) {
  canvas.width = table.columns;
  canvas.height = table.rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(table.columns, table.rows);
  const [low, high] = table.limits;
  values.forEach((value, k) => {
    const found = Number.isFinite(value) ? colour(table.palette, (value - low) / (high - low)) : [128, 128, 128];
    image.data.set([...found, 255], 4 * k);
  });
  context.putImageData(image, 0, 0);
}

// The shortest decimal that reads back as the same float32.
function shortest(value) {
  if (!Number.isFinite(value)) return String(value);
  for (let digits = 1; digits <= 9; digits += 1) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === value) return String(Number(text));
  }
  return String(value);
}

function tell(figure, table, values, row, column) {
  const value = values[row * table.columns + column];
  const where = `${table.rowName} ${table.first + row}, ${table.columnName} ${column}`;
  figure.querySelector("output").textContent = `${where}: ${shortest(value)}`;
}

function follow(figure, canvas, table, values) {
  let row = 0, column = 0;
  const show = () => tell(figure, table, values, row, column);
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const across = (event.clientX - box.left) / box.width, down = (event.clientY - box.top) / box.height;
    column = Math.min(table.columns - 1, Math.max(0, Math.floor(across * table.columns)));
    row = Math.min(table.rows - 1, Math.max(0, Math.floor(down * table.rows)));
    show();
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    row = Math.min(table.rows - 1, Math.max(0, row + step[0]));
    column = Math.min(table.columns - 1, Math.max(0, column + step[1]));
    show();
  });
  canvas.addEventListener("focus", show);
}

for (const figure of document.querySelectorAll("figure.heatmap")) {
  const table = JSON.parse(figure.querySelector("script").textContent);
  const values = floats(table.data);
  const canvas = figure.querySelector("canvas");
  canvas.hidden = false;
  draw(canvas, table, values);
  follow(figure, canvas, table, values);
}
