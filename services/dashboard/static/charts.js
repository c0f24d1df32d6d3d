// Draws [data-figure] elements with Plotly from data that the server made. No figure carries code.
"use strict";
(() => {
  const palette = ["#0b6e99", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#8c6d31"];
  const dashes = ["solid", "dash", "dot", "dashdot"];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function layout(figure) {
    const axis = { gridcolor: colour("--line"), linecolor: colour("--line"), zeroline: false, automargin: true };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: true,
      font: { family: "system-ui, sans-serif", size: 13, color: colour("--dim") },
      margin: { l: 48, r: 12, t: 8, b: 36 }, hovermode: "closest", legend: { orientation: "h", y: -0.18 },
      xaxis: { ...axis, type: "date", tickformat: "%d %b" },
      yaxis: { ...axis, title: { text: "sigma" }, rangemode: "tozero" },
      shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: figure.limit, y1: figure.limit,
        line: { color: colour("--alert"), width: 1.5, dash: "dash" } }],
      annotations: [{ xref: "paper", x: 1, y: figure.limit, xanchor: "right", yanchor: "bottom", showarrow: false,
        text: figure.limit_text, font: { color: colour("--alert"), size: 12 } }],
    };
  }

  function dress(figure) {
    return figure.data.map((trace, index) => ({
      ...trace,
      line: { color: palette[index % palette.length], width: 2.2, dash: dashes[Math.floor(index / palette.length) % dashes.length] },
      marker: { size: 6, color: palette[index % palette.length] },
    }));
  }

  async function draw(place) {
    try {
      const answer = await fetch(place.dataset.figure, { cache: "no-store" });
      if (!answer.ok) return;
      const figure = await answer.json();
      const empty = figure.data.length === 0;
      place.classList.toggle("nothing", empty);
      if (empty) {
        if (place.classList.contains("js-plotly-plot")) Plotly.purge(place);
        place.textContent = figure.problem ? "No chart: the service " + figure.problem : "No drift measured yet: the chart begins with the first complete day.";
        return;
      }
      if (!place.classList.contains("js-plotly-plot")) place.textContent = "";
      await Plotly.react(place, dress(figure), layout(figure), { displayModeBar: false, responsive: true });
      place.dataset.drawn = "yes";
    } catch { /* live.js says that the connection is lost */ }
  }

  async function turn(place) {
    if (!document.hidden) await draw(place);
    setTimeout(turn, 1000 * Number(place.dataset.every), place);
  }

  document.querySelectorAll("[data-figure]").forEach(turn);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.querySelectorAll("[data-figure]").forEach(draw));
})();
