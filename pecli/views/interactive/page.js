// Draws the panels of an interactive page, and lets the reader change the settings of RoPE.
"use strict";

const page = JSON.parse(document.getElementById("data").textContent);

// A report follows the reader's theme, so it has the colours of both.
const prefersDark = matchMedia("(prefers-color-scheme: dark)").matches;
const colours = prefersDark && page.dark_colours ? page.dark_colours : page.colours;

const COMMON_LAYOUT = {
  paper_bgcolor: colours.paper,
  plot_bgcolor: colours.paper,
  font: { color: colours.ink, size: 12 },
  margin: { l: 64, r: 16, t: 56, b: 48 },
  hovermode: "closest",
  modebar: { bgcolor: "rgba(0, 0, 0, 0)" }, // On a phone, it lies on the legend.
  legend: { orientation: "h", y: 1.08, yanchor: "bottom" },
};
const CONFIG = { responsive: true, displaylogo: false };
const PIECES = 300; // Points of a curve of scores; each stands for many distances.
const SAMPLES = 32; // Distances that are computed for each of them.

function drawPanel(panel, title, data, layout) {
  const axis = { gridcolor: colours.faint, zerolinecolor: colours.faint, exponentformat: "power" };
  const wholeLayout = {
    ...COMMON_LAYOUT,
    ...layout,
    xaxis: { ...axis, ...layout.xaxis },
    yaxis: { ...axis, ...layout.yaxis },
  };
  panel.querySelector("h3").textContent = title;
  return Plotly.react(panel.querySelector(".plot"), data, wholeLayout, CONFIG);
}

function newPanel(parent) {
  const panel = document.createElement("div");
  const plot = document.createElement("div");
  plot.className = "plot";
  panel.append(document.createElement("h3"), plot);
  parent.append(panel);
  return panel;
}

// ---- The mathematics of RoPE, as in pecli's engine

// θ of pair i is base^(−2i/dim), in radians per position.
function unscaledFrequencies({ base, dim }) {
  const frequencies = [];
  for (let pair = 0; pair < dim / 2; pair++) {
    frequencies.push(base ** ((-2 * pair) / dim));
  }
  return frequencies;
}

// YaRN blends between the pairs that turn beta_fast and beta_slow times in the trained context.
function yarnLimits(settings) {
  const { base, dim, original_length, beta_fast, beta_slow, truncate } = settings;
  const pairWithTurns = (turns) =>
    (dim * Math.log(original_length / (turns * 2 * Math.PI))) / (2 * Math.log(base));
  let low = pairWithTurns(beta_fast);
  let high = pairWithTurns(beta_slow);
  if (truncate) {
    low = Math.floor(low);
    high = Math.ceil(high);
  }
  low = Math.max(low, 0);
  high = Math.min(high, dim - 1);
  if (low === high) high += 0.001;
  return { low, high };
}

function clip(value) {
  return Math.min(Math.max(value, 0), 1);
}

function frequenciesOf(settings) {
  const { dim, method, factor, original_length } = settings;
  const plain = unscaledFrequencies(settings);
  if (method === "linear") return plain.map((frequency) => frequency / factor);
  if (method === "ntk") {
    const base = settings.base * factor ** (dim / (dim - 2));
    return unscaledFrequencies({ ...settings, base });
  }
  if (method === "yarn") {
    const { low, high } = yarnLimits(settings);
    return plain.map((frequency, pair) => {
      const ramp = clip((pair - low) / (high - low));
      return (frequency / factor) * ramp + frequency * (1 - ramp);
    });
  }
  if (method === "llama3") {
    const { low_freq_factor, high_freq_factor } = settings;
    const span = high_freq_factor - low_freq_factor;
    return plain.map((frequency) => {
      const rotations = (original_length * frequency) / (2 * Math.PI);
      let kept = clip((rotations - low_freq_factor) / span);
      if (span === 0) kept = rotations > low_freq_factor ? 1 : 0;
      return frequency * kept + (frequency / factor) * (1 - kept);
    });
  }
  return plain;
}

// YaRN multiplies queries and keys by this, so that scores grow by its square.
function attentionFactor(settings) {
  if (settings.method !== "yarn") return 1;
  if (settings.attention_factor !== null) return settings.attention_factor;
  return settings.factor > 1 ? 0.1 * Math.log(settings.factor) + 1 : 1;
}

// The score of q = k, |q| = 1, at a distance: the mean of cos(distance · θ) over all pairs.
function score(frequencies, distance, attention) {
  let sum = 0;
  for (const frequency of frequencies) sum += Math.cos(distance * frequency);
  return (attention * attention * sum) / frequencies.length;
}

// Cuts the distances 1 … last into pieces that are equally wide on a logarithmic axis.
function distancePieces(last) {
  const edges = new Set([1]);
  for (let piece = 1; piece <= PIECES; piece++) {
    edges.add(Math.round((last + 1) ** (piece / PIECES)));
  }
  const sorted = [...edges].sort((a, b) => a - b);
  const pieces = [];
  for (let k = 0; k + 1 < sorted.length; k++) {
    const step = Math.ceil((sorted[k + 1] - sorted[k]) / SAMPLES);
    pieces.push({ start: sorted[k], stop: sorted[k + 1], step });
  }
  return pieces;
}

function median(sorted) {
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function scoreCurves(settings) {
  const frequencies = frequenciesOf(settings);
  const attention = attentionFactor(settings);
  const curves = { x: [], low: [], median: [], high: [] };
  for (const { start, stop, step } of distancePieces(settings.length)) {
    const scores = [];
    for (let distance = start; distance < stop; distance += step) {
      scores.push(score(frequencies, distance, attention));
    }
    scores.sort((a, b) => a - b);
    curves.x.push(stop - 1);
    curves.low.push(scores[0]);
    curves.median.push(median(scores));
    curves.high.push(scores[scores.length - 1]);
  }
  return curves;
}

// ---- Charts that follow the sliders

function drawWavelengths(panel, settings) {
  const lengths = (frequencies) => frequencies.map((frequency) => (2 * Math.PI) / frequency);
  const pairs = [...Array(settings.dim / 2).keys()];
  const hover = "pair %{x}<br>%{y:.7g} positions<extra></extra>";
  const unscaled = lengths(unscaledFrequencies(settings));
  const data = [
    { name: "unscaled", x: pairs, y: unscaled, line: { dash: "dot", color: colours.grey } },
    { name: settings.method, x: pairs, y: lengths(frequenciesOf(settings)), line: { color: colours.curve } },
  ];
  for (const trace of data) Object.assign(trace, { mode: "lines", hovertemplate: hover });
  return drawPanel(panel, "wavelength of each pair", data, {
    xaxis: { title: { text: "pair" } },
    yaxis: { title: { text: "wavelength, in positions" }, type: "log" },
    shapes: [
      {
        type: "line", xref: "paper", x0: 0, x1: 1,
        y0: settings.original_length, y1: settings.original_length,
        line: { dash: "dash", width: 1, color: colours.grey },
      },
    ],
    annotations: [
      {
        text: "original length", xref: "paper", x: 0, y: Math.log10(settings.original_length),
        xanchor: "left", yanchor: "bottom", showarrow: false, font: { size: 11, color: colours.grey },
      },
    ],
  });
}

function drawScores(panel, settings) {
  const curves = scoreCurves(settings);
  const edge = { x: curves.x, mode: "lines", line: { width: 0 }, showlegend: false, hoverinfo: "skip" };
  const data = [
    { ...edge, y: curves.low },
    { ...edge, y: curves.high, fill: "tonexty", fillcolor: `${colours.curve}40` },
    {
      name: "median", x: curves.x, y: curves.median, mode: "lines", line: { color: colours.curve },
      hovertemplate: "distance %{x}<br>score %{y:.7g}<extra></extra>",
    },
  ];
  return drawPanel(panel, "score of q = k by distance: median, min–max", data, {
    xaxis: { title: { text: "distance" }, type: "log" },
    yaxis: { title: { text: "score" } },
    showlegend: false,
  });
}

// ---- Sliders

// A slider moves in steps of a logarithm, since bases and lengths span several powers of ten.
const SLIDERS = [
  { name: "base", text: "theta", low: 100, high: 1e8, digits: 5 },
  { name: "factor", text: "factor", low: 1, high: 64, digits: 3 },
  { name: "original_length", text: "original length", low: 256, high: 1048576, digits: 0 },
];
const STEPS = 600;

function valueAt({ low, high, digits }, step) {
  const value = low * (high / low) ** (step / STEPS);
  return digits === 0 ? Math.round(value) : Number(value.toPrecision(digits));
}

function stepOf({ low, high }, value) {
  return Math.round((STEPS * Math.log(value / low)) / Math.log(high / low));
}

function labelled(text, ...children) {
  const label = document.createElement("label");
  label.append(text, ...children);
  return label;
}

function addSliders(parent, start) {
  const settings = { ...start };
  const heading = document.createElement("h2");
  heading.textContent = `Other settings of ${start.label || "RoPE"}`;
  const controls = document.createElement("div");
  controls.className = "sliders";
  const charts = document.createElement("div");
  charts.className = "panels";
  charts.style.gridTemplateColumns = "repeat(2, minmax(0, 1fr))";
  parent.append(heading, controls, charts);
  const wavelengths = newPanel(charts);
  const scores = newPanel(charts);

  const redraw = () =>
    Promise.all([drawWavelengths(wavelengths, settings), drawScores(scores, settings)]);
  const refreshers = [];

  const methods = document.createElement("select");
  methods.name = "method";
  for (const method of ["none", "linear", "ntk", "yarn", "llama3"]) methods.add(new Option(method));
  methods.addEventListener("change", () => {
    settings.method = methods.value;
    redraw();
  });
  refreshers.push(() => (methods.value = settings.method));
  controls.append(labelled("method", methods));

  for (const slider of SLIDERS) {
    const input = document.createElement("input");
    Object.assign(input, { type: "range", min: 0, max: STEPS, name: slider.name });
    const output = document.createElement("output");
    input.addEventListener("input", () => {
      settings[slider.name] = valueAt(slider, Number(input.value));
      output.value = settings[slider.name].toLocaleString("en");
      redraw();
    });
    refreshers.push(() => {
      input.value = stepOf(slider, settings[slider.name]);
      output.value = settings[slider.name].toLocaleString("en");
    });
    controls.append(labelled(slider.text, input, output));
  }

  const reset = document.createElement("button");
  reset.textContent = "reset";
  reset.addEventListener("click", () => {
    Object.assign(settings, start);
    refreshers.forEach((refresh) => refresh());
    redraw();
  });
  controls.append(reset);
  refreshers.forEach((refresh) => refresh());
  return redraw();
}

// ---- The page

const panels = document.getElementById("panels"); // A report has none: its figures do not move.
if (panels) {
  panels.style.gridTemplateColumns = `repeat(${page.across}, minmax(0, 1fr))`;
  for (const panel of page.panels) {
    drawPanel(newPanel(panels), panel.title, panel.data, panel.layout);
  }
}
const sliders = document.getElementById("sliders");
for (const settings of page.sliders) addSliders(sliders, settings);
