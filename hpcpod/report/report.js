// Marks a pod in every figure, reads values off lines, and zooms along the x axis.
// Text of the run is only ever set as textContent. The page is complete without this script.
"use strict";
(() => {
  const GRID = 4000, SVG = "http://www.w3.org/2000/svg";
  const finder = document.querySelector(".finder"), select = document.getElementById("mark");
  let marked = "";

  function mark(pod) {
    if (pod === marked) return;
    marked = pod;
    for (const path of document.querySelectorAll("[data-pod]"))
      path.classList.toggle("lit", pod !== "" && path.dataset.pod === pod && !path.classList.contains("band"));
  }

  if (finder && select && select.options.length > 2) {
    finder.hidden = false;
    select.addEventListener("change", () => mark(select.value));
  }

  const digits = (value) => {
    const size = Math.abs(value);
    if (size >= 1e4) return Number(value.toPrecision(3)).toExponential().replace("e+", "e");
    return String(Number(value.toPrecision(4)));
  };

  for (const plot of document.querySelectorAll("svg[data-zoom]")) {
    const frame = plot.parentElement, data = plot.querySelector("svg.data"), ticks = plot.querySelector(".xticks");
    const [x0, x1, unit] = plot.dataset.x.split(" ").map(Number);
    const [y0, y1, log] = plot.dataset.y.split(" ").map(Number);
    const overlays = [...plot.querySelectorAll("text.birth")].map((text) => [text, parseFloat(text.getAttribute("x")) / 100]);
    const readout = document.createElement("div"), reset = document.createElement("button");
    readout.className = "readout";
    readout.setAttribute("aria-live", "polite");
    reset.className = "reset"; reset.type = "button"; reset.textContent = "Whole range"; reset.hidden = true;
    frame.append(readout, reset);
    let left = 0, right = 1, lines = null, from = null, box = null;

    const points = () => lines ??= [...data.querySelectorAll(".line[data-pod]")].map((path) => ({
      pod: path.dataset.pod,
      at: [...path.getAttribute("d").matchAll(/[ML](-?\d+) (-?\d+)/g)].map((m) => [+m[1] / GRID, +m[2] / GRID]),
    }));

    const value = (place) => (x0 + place * (x1 - x0)) / unit;
    const height = (place) => log ? Math.exp(Math.log(y0) + (1 - place) * (Math.log(y1) - Math.log(y0))) : y0 + (1 - place) * (y1 - y0);

    function show(low, high) {
      left = Math.max(0, low); right = Math.min(1, high);
      if (right - left < 0.002) return;
      data.setAttribute("viewBox", `${left * GRID} 0 ${(right - left) * GRID} ${GRID}`);
      const first = value(left), last = value(right), rough = (last - first) / 5.5, power = 10 ** Math.floor(Math.log10(rough));
      const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough * 0.999);
      const made = [];
      for (let k = Math.ceil(first / step - 1e-9); k * step <= last + step * 1e-9; k++) {
        const at = `${100 * (k * step - first) / (last - first)}%`;
        const line = document.createElementNS(SVG, "line"), text = document.createElementNS(SVG, "text");
        for (const [name, set] of [["class", "axis"], ["x1", at], ["x2", at], ["y1", "100%"], ["y2", plot.clientHeight + 5]]) line.setAttribute(name, set);
        for (const [name, set] of [["class", "x tick"], ["x", at], ["y", plot.clientHeight + 18]]) text.setAttribute(name, set);
        text.textContent = digits(k * step);
        made.push(line, text);
      }
      ticks.replaceChildren(...made);
      for (const [text, place] of overlays) {
        const at = (place - left) / (right - left);
        text.setAttribute("x", `${100 * at}%`);
        text.style.display = at < 0 || at > 1 ? "none" : "";
      }
      reset.hidden = left === 0 && right === 1;
    }

    const place = (event) => {
      const area = plot.getBoundingClientRect();
      return [(event.clientX - area.left) / area.width, (event.clientY - area.top) / area.height, area];
    };

    function read(event) {
      const [x, y, area] = place(event);
      let best = null, near = 30 * 30;
      for (const line of points()) for (const [px, py] of line.at) {
        const dx = ((px - left) / (right - left) - x) * area.width, dy = (py - y) * area.height;
        if (dx * dx + dy * dy < near) { near = dx * dx + dy * dy; best = [line.pod, px, py]; }
      }
      readout.textContent = best ? `${best[0]}: about ${digits(height(best[2]))} at ${digits(value(best[1]))} ${plot.dataset.suffix || ""}` : "";
      mark(best ? best[0] : select ? select.value : "");
    }

    plot.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse" || event.button !== 0) return;
      from = place(event)[0];
      box = document.createElementNS(SVG, "rect");
      box.setAttribute("class", "chosen"); box.setAttribute("y", "0"); box.setAttribute("height", "100%");
      plot.append(box); plot.setPointerCapture(event.pointerId); event.preventDefault(); plot.focus({ preventScroll: true });
    });
    plot.addEventListener("pointermove", (event) => {
      if (from === null) return read(event);
      const to = place(event)[0];
      box.setAttribute("x", `${100 * Math.min(from, to)}%`); box.setAttribute("width", `${100 * Math.abs(to - from)}%`);
    });
    plot.addEventListener("pointerup", (event) => {
      if (from === null) return read(event);
      const to = place(event)[0], span = right - left, low = Math.min(from, to), high = Math.max(from, to);
      box.remove(); from = null;
      if (high - low > 0.02) show(left + low * span, left + high * span);
    });
    plot.addEventListener("pointercancel", () => { if (box) box.remove(); from = null; });
    plot.addEventListener("pointerleave", () => { readout.textContent = ""; mark(select ? select.value : ""); });
    plot.addEventListener("dblclick", () => show(0, 1));
    reset.addEventListener("click", () => { show(0, 1); plot.focus(); });
    plot.addEventListener("keydown", (event) => {
      const span = right - left, middle = (left + right) / 2;
      const moves = {
        "+": [middle - span / 4, middle + span / 4], "=": [middle - span / 4, middle + span / 4],
        "-": [middle - span, middle + span], "0": [0, 1], "Escape": [0, 1],
        "ArrowLeft": [Math.max(0, left - span / 4), Math.max(0, left - span / 4) + span],
        "ArrowRight": [Math.min(1 - span, left + span / 4), Math.min(1 - span, left + span / 4) + span],
      };
      if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in moves)) return;
      show(...moves[event.key]); event.preventDefault();
    });
  }
})();
