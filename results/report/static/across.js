// Explores many runs: maps of any two values that were varied, curves along one, and a table that can be sorted and searched.
(() => {
  "use strict";

  const {charts, base, axis, below, legend, look, lines, number, dashes, cased, drawn} = window.echelonReport;
  const form = document.getElementById("explorer-controls");
  const ALL = -1;
  const LEFT = 112; // of a map, where it has values up: a long path stands above them

  const mean = (values) => values.length ? Math.exp(values.reduce((sum, v) => sum + Math.log(v), 0) / values.length) : null;

  function explore() {
    const c = charts[form.dataset.explorer];
    const paths = c.axes.map((one) => one.path);
    const varied = paths.map((_, i) => i).filter((i) => c.axes[i].values.length > 1);
    const chosen = {x: varied[0] ?? 0, y: varied[1] ?? -1, measure: c.first, job: ALL, what: c.ratio[c.first].some((r) => r) ? "ratio" : "value"};
    const control = (name, words, options) => {
      const label = document.createElement("label");
      const select = document.createElement("select");
      select.name = name;
      options.forEach(([value, text]) => select.append(new Option(text, value, false, String(value) === String(chosen[name]))));
      select.addEventListener("change", () => { chosen[name] = name === "what" ? select.value : Number(select.value); show(); });
      label.append(`${words} `, select);
      form.append(label);
    };
    const axes = paths.map((path, i) => [i, path]);
    if (axes.length) control("x", "across", axes);
    if (axes.length > 1) control("y", "up", axes);
    control("measure", "measure", c.measures.map((one, i) => [i, one.words]));
    if (c.jobs.length > 1) control("job", "job", [[ALL, "all jobs"], ...c.jobs.map((job, i) => [i, job])]);
    control("what", "show", [["ratio", `ratio to ${c.basis}`], ["value", "the value"]]);
    form.addEventListener("submit", (event) => event.preventDefault());

    // The geometric mean of what is shown over the rows that pass.
    const found = (policy, passes) => {
      const kept = [];
      c.policy.forEach((p, i) => {
        if (p !== policy || (chosen.job !== ALL && c.job[i] !== chosen.job) || !passes(c.at[i])) return;
        const value = chosen.what === "ratio" ? (c.ratio[chosen.measure][i] || [null])[0] : c.value[chosen.measure][i];
        if (value !== null && value > 0) kept.push(value);
      });
      return [mean(kept), kept.length];
    };
    const values = (axisOf) => axisOf < 0 || !c.axes[axisOf] ? [""] : c.axes[axisOf].values;

    const show = () => {
      const t = look();
      const ratio = chosen.what === "ratio";
      const better = c.measures[chosen.measure].more ? [...c.ramps.ratio].reverse() : c.ramps.ratio;
      const shown = c.policies.map((_, p) => p).filter((p) => !ratio || c.policies[p] !== c.basis);
      const two = chosen.y >= 0 && chosen.y !== chosen.x;
      const xs = values(chosen.x), ys = two ? values(chosen.y) : [""];
      const maps = shown.map((p) => xs.flatMap((_, x) => ys.map((__, y) => {
        const [value, count] = found(p, (at) => (!c.axes.length || at[chosen.x] === x) && (!two || at[chosen.y] === y));
        return [x, y, value, count];
      })).filter((cell) => cell[2] !== null));
      const all = maps.flat().map((cell) => cell[2]);
      const far = Math.max(0.01, ...all.map((v) => Math.abs(Math.log(v))));
      const range = ratio ? [Math.exp(-far), Math.exp(far)] : [Math.min(...all), Math.max(...all)];
      // Both ramps are dark at their ends: of ratios at either, of values at the upper one.
      const onDark = (value) => ratio ? Math.abs(Math.log(value)) > 0.62 * far : value > range[0] + 0.45 * (range[1] - range[0]);
      const holder = document.getElementById("explorer-maps");
      const wanted = shown.map((p) => `map-${p}`);
      [...holder.children].forEach((one) => {
        if (!wanted.includes(one.id)) { drawn.get(one.id)?.dispose(); drawn.delete(one.id); one.remove(); }
      });
      shown.forEach((p, i) => {
        const id = `map-${p}`;
        let element = document.getElementById(id);
        if (!element) {
          element = document.createElement("div");
          element.className = "chart";
          element.id = id;
          element.setAttribute("role", "img");
          element.setAttribute("aria-label", `Map of ${c.policies[p]}`);
          holder.append(element);
        }
        put(id, Math.max(ys.length * 26, 60) + 84 + (two ? 46 : 28), {
          ...base(t, c.policies[p]),
          grid: {left: two ? LEFT : 20, right: 90, top: two ? 46 : 28, bottom: 56},
          tooltip: {...base(t).tooltip, formatter: (q) => lines(c.policies[p],
            c.axes.length ? `${paths[chosen.x]}: ${xs[q.value[0]]}` : "", two ? `${paths[chosen.y]}: ${ys[q.value[1]]}` : "",
            `${c.measures[chosen.measure].words}: ${number(q.value[2])}${ratio ? ` of that of ${c.basis}` : ` ${c.measures[chosen.measure].unit}`}`, `over ${q.value[4]} conditions and jobs`)},
          xAxis: axis(t, {type: "category", data: xs, ...below(c.axes.length ? paths[chosen.x] : ""), splitLine: {show: false}, axisLabel: {hideOverlap: true}}),
          yAxis: axis(t, {type: "category", data: ys, name: two ? paths[chosen.y] : "", nameLocation: "end", nameGap: 6, splitLine: {show: false},
                          axisLabel: {interval: 0, width: 86, overflow: "truncate"}, axisLine: {show: two}, axisTick: {show: two},
                          nameTextStyle: {color: t.ink, fontSize: 11, align: "left", padding: [0, 0, 0, -LEFT]}}),
          visualMap: {type: "continuous", min: ratio ? Math.log(range[0]) : range[0], max: ratio ? Math.log(range[1]) : range[1], dimension: 3, right: 0, top: "middle",
                      itemHeight: 90, itemWidth: 12, calculable: false, textStyle: {color: t.ink, fontSize: 10}, text: [number(range[1], 3), number(range[0], 3)],
                      inRange: {color: ratio ? better : c.ramps.value}},
          series: [{type: "heatmap", data: maps[i].map(([x, y, value, count]) => ({value: [x, y, value, ratio ? Math.log(value) : value, count], label: {color: onDark(value) ? "#fff" : "#000"}})),
                    itemStyle: {borderColor: t.paper, borderWidth: 1},
                    label: {show: xs.length <= 14, fontSize: 10, formatter: (q) => number(q.value[2], 3)}}],
        });
      });
      document.getElementById("explorer-words").textContent =
        `${c.measures[chosen.measure].words}, ${chosen.job === ALL ? "all jobs" : c.jobs[chosen.job]}.` + (c.left_out ? ` ${c.left_out} more rows are left out.` : "");
      put("explorer-curve", 340, {
        ...base(t),
        legend: legend(t, {top: 0, left: 0}),
        grid: {left: 70, right: 24, top: 34, bottom: 56},
        tooltip: {...base(t).tooltip, trigger: "axis", formatter: (all_) => lines(all_[0].axisValue, ...all_.map((q) => `${q.seriesName}: ${number(q.value)}`))},
        xAxis: axis(t, {type: "category", data: xs, boundaryGap: xs.length < 3, ...below(c.axes.length ? paths[chosen.x] : "")}),
        yAxis: axis(t, {type: "value", scale: true, name: ratio ? `ratio to ${c.basis}` : c.measures[chosen.measure].titled, nameLocation: "middle", nameGap: 50,
                        axisLabel: {formatter: (v) => number(v, 4)}}),
        series: shown.flatMap((p) => cased({
          name: c.policies[p], type: "line", symbolSize: 7, itemStyle: {color: c.colours[p]},
          lineStyle: {color: c.colours[p], width: 2, type: dashes[c.lines[p]]},
          data: xs.map((_, x) => found(p, (at) => !c.axes.length || at[chosen.x] === x)[0]),
        }, c.colours[p], t)),
      });
    };

    const put = (id, height, option) => {
      const holder = document.getElementById(id);
      holder.style.height = `${height}px`;
      if (!drawn.has(id)) drawn.set(id, echarts.init(holder, null, {renderer: "svg"}));
      drawn.get(id).setOption(option, {notMerge: true});
      window.echelonReport.resized(id);
    };
    window.echelonReport.redraw.push(show);
    show();
  }

  // Sorting and searching of a table whose rows are in the page.
  function table() {
    const rows = document.getElementById("rows");
    const body = rows.tBodies[0], all = [...body.rows];
    const heads = [...rows.tHead.rows[0].cells];
    const count = document.getElementById("count");
    const key = (row, at) => {
      const text = row.cells[at].textContent.trim();
      const first = parseFloat(text.replace("<", ""));
      return Number.isNaN(first) ? text : first;
    };
    heads.forEach((head, at) => {
      head.classList.add("sorts");
      head.tabIndex = 0;
      const sort = () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const keyed = all.map((row) => [key(row, at), row]);
        keyed.sort(([a], [b]) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1) * (up ? 1 : -1));
        body.append(...keyed.map(([, row]) => row));
      };
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(); } });
    });
    const find = document.getElementById("find");
    const filter = () => {
      const wanted = find.value.toLowerCase();
      let left = 0;
      all.forEach((row) => { row.hidden = !row.textContent.toLowerCase().includes(wanted); left += row.hidden ? 0 : 1; });
      count.textContent = `${left} of ${all.length} rows`;
    };
    find.addEventListener("input", filter);
    filter();
  }

  if (form) explore();
  table();
})();
