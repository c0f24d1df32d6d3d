// Draws [data-figure] elements with Plotly from data that the server made. No figure carries code or a style.
"use strict";
(() => {
  const palette = ["#0b6e99", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#8c6d31"];
  const dashes = ["solid", "dash", "dot", "dashdot"];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function axis(wanted) {
    const base = { gridcolor: colour("--line"), linecolor: colour("--line"), zeroline: false, automargin: true };
    if (wanted.date) return { ...base, type: "date", tickformat: "%d %b" };
    return { ...base, title: { text: wanted.title }, rangemode: wanted.zero ? "tozero" : "normal" };
  }

  function limit(figure) {
    if (!figure.limit) return {};
    const along = figure.limit.axis, across = along === "x" ? "y" : "x", at = figure.limit.at;
    const line = { color: colour("--alert"), width: 1.5, dash: "dash" };
    const place = along === "x" ? { y: 1, xanchor: "left", yanchor: "top" } : { x: 1, xanchor: "right", yanchor: "bottom" };
    return {
      shapes: [{ type: "line", [across + "ref"]: "paper", [across + "0"]: 0, [across + "1"]: 1, [along + "0"]: at, [along + "1"]: at, line }],
      annotations: [{ [across + "ref"]: "paper", [along]: at, ...place, showarrow: false, text: figure.limit.text,
        font: { color: colour("--alert"), size: 12 } }],
    };
  }

  function layout(figure) {
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: true,
      font: { family: "system-ui, sans-serif", size: 13, color: colour("--dim") },
      margin: { l: 48, r: 12, t: 8, b: 36 }, hovermode: "closest", legend: { orientation: "h", y: -0.18 },
      xaxis: axis(figure.x), yaxis: axis(figure.y), ...limit(figure),
    };
  }

  function looks(trace, index) {
    if (trace.look === "dim") return { marker: { size: trace.sizes, color: colour("--dim"), opacity: 0.45 } };
    if (trace.look === "first") return { line: { color: palette[0], width: 2 }, marker: { size: trace.sizes, color: palette[0] } };
    if (trace.look === "chosen") return { marker: { size: 17, symbol: "star", color: palette[1], line: { color: colour("--ink"), width: 1 } } };
    const own = palette[index % palette.length];
    return { line: { color: own, width: 2.2, dash: dashes[Math.floor(index / palette.length) % dashes.length] }, marker: { size: 6, color: own } };
  }

  const dress = (figure) => figure.data.map((trace, index) => ({ ...trace, ...looks(trace, index) }));

  async function draw(place) {
    try {
      const answer = await fetch(place.dataset.figure, { cache: "no-store" });
      if (!answer.ok) return;
      const figure = await answer.json();
      const empty = figure.data.length === 0;
      place.classList.toggle("nothing", empty);
      if (empty) {
        if (place.classList.contains("js-plotly-plot")) Plotly.purge(place);
        place.textContent = figure.empty;
        return;
      }
      if (!place.classList.contains("js-plotly-plot")) place.textContent = "";
      await Plotly.react(place, dress(figure), layout(figure), { displayModeBar: false, responsive: true });
      place.dataset.drawn = "yes";
    } catch { /* live.js says that the connection is lost */ }
  }

  async function turn(place) {
    if (!document.hidden) await draw(place);
    if (place.dataset.every) setTimeout(turn, 1000 * Number(place.dataset.every), place);
  }

  document.querySelectorAll("[data-figure]").forEach(turn);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.querySelectorAll("[data-figure]").forEach(draw));
})();
