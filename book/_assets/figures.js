// Draws the figures that PlotlyRenderer left in the page as JSON, in the colors of the page's theme.
"use strict";
(() => {
  const INK = {
    light: { text: "#1f2328", line: "#59636e", grid: "#e3e6ea", paper: "#ffffff" },
    dark: { text: "#e6e8eb", line: "#a9b0b8", grid: "#3a4048", paper: "#181b1f" },
  };

  const theme = () => (document.documentElement.dataset.theme === "dark" ? "dark" : "light");

  function recolored(layout, ink) {
    const change = {
      paper_bgcolor: ink.paper,
      plot_bgcolor: ink.paper,
      "font.color": ink.text,
      "title.font.color": ink.text,
    };
    for (const name of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) {
      change[`${name}.gridcolor`] = ink.grid;
      change[`${name}.linecolor`] = ink.line;
      change[`${name}.zerolinecolor`] = ink.line;
      change[`${name}.tickcolor`] = ink.grid;
      change[`${name}.title.font.color`] = ink.line;
    }
    return change;
  }

  async function draw(figure) {
    const plot = figure.querySelector(".medvrag-plot");
    const { data, layout } = JSON.parse(figure.querySelector("script").textContent);
    // The camera of the toolbar gives the static twin, which stays sharp in print.
    const toImageButtonOptions = { format: "svg", filename: figure.getAttribute("aria-label") || "figure" };
    await Plotly.newPlot(plot, data, layout, { responsive: true, displaylogo: false, toImageButtonOptions });
    figure.dataset.drawn = "yes";
    paint(plot);
  }

  // A figure in print keeps the light colors whatever the page shows.
  function paint(plot, name = theme()) {
    if (plot._fullLayout) Plotly.relayout(plot, recolored(plot._fullLayout, INK[name]));
  }

  function start() {
    const figures = [...document.querySelectorAll("figure.medvrag-figure")];
    const plots = figures.map((figure) => figure.querySelector(".medvrag-plot"));
    if (!figures.length) return;
    if (typeof Plotly === "undefined") {
      for (const plot of plots) plot.textContent = "This figure needs plotly.min.js, which is missing beside the page.";
      return;
    }
    figures.forEach(draw);
    new MutationObserver(() => plots.forEach((plot) => paint(plot))).observe(document.documentElement, {
      attributeFilter: ["data-theme"],
    });
    window.addEventListener("beforeprint", () => plots.forEach((plot) => paint(plot, "light")));
    window.addEventListener("afterprint", () => plots.forEach((plot) => paint(plot)));
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
