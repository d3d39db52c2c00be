// Draws the charts of a report with ECharts, from the JSON in the page; one function for each kind of chart.
(() => {
  "use strict";

  const charts = JSON.parse(document.getElementById("charts").textContent);
  const MOST_SVG_BARS = 1500; // of a Gantt chart; more are drawn on a canvas, which is as sharp and faster
  const MOST_NAMED = 24; // jobs below a Gantt chart
  const dark = window.matchMedia("screen and (prefers-color-scheme: dark)");
  const printing = window.matchMedia("print");
  const drawn = new Map();

  const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const look = () => ({ink: variable("--ink"), soft: variable("--soft"), line: variable("--line"), paper: variable("--paper"),
                       grid: variable("--grid"), dark: dark.matches && !printing.matches});

  const escaped = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
  const number = (value, digits = 4) => value === null || value === undefined ? "-" : String(Number(Number(value).toPrecision(digits)));
  const seconds = (value) => value === null || value === undefined ? "-"
    : value !== 0 && Math.abs(value) < 0.1 ? `${number(value * 1e3)} ms` : `${Number(value).toFixed(3)} s`;
  const lines = (...words) => words.filter(Boolean).map(escaped).join("<br>");

  const luma = (colour) => {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    return 0.299 * r + 0.587 * g + 0.114 * b;
  };
  const isDark = (colour) => luma(colour) < 110;
  // A policy has one colour everywhere. Where that is as dark as the page, a curve lies on a broader light one, and a bar has an edge.
  const isLost = (colour, t) => t.dark && luma(colour) < 80;
  const cased = (series, colour, t) => isLost(colour, t) ? [
    {type: "line", step: series.step, data: series.data, silent: true, symbol: "none", tooltip: {show: false},
     lineStyle: {color: t.ink, width: 4.5, opacity: 0.6, type: "solid"}}, series] : [series];
  const edge = (colour, t) => isLost(colour, t) ? {borderColor: t.ink, borderWidth: 1} : {};

  const base = (t, title) => ({
    animation: false,
    aria: {enabled: false}, // the element that holds the chart says what it is
    textStyle: {fontFamily: "system-ui, 'DejaVu Sans', sans-serif", color: t.ink},
    title: title ? {text: title, left: 0, top: 0, textStyle: {fontSize: 13, fontWeight: 600, color: t.ink, width: 640, overflow: "truncate"}} : undefined,
    tooltip: {confine: true, backgroundColor: t.paper, borderColor: t.line, textStyle: {color: t.ink, fontSize: 12}},
  });
  const axis = (t, more) => ({
    axisLine: {show: true, lineStyle: {color: t.soft}}, axisTick: {lineStyle: {color: t.soft}},
    axisLabel: {color: t.ink, fontSize: 11}, nameTextStyle: {color: t.ink, fontSize: 11},
    splitLine: {show: true, lineStyle: {color: t.grid}}, ...more,
    ...(more && more.axisLabel ? {axisLabel: {color: t.ink, fontSize: 11, ...more.axisLabel}} : {}),
  });
  const below = (name) => ({name, nameLocation: "middle", nameGap: 26});
  const legend = (t, more) => ({type: "scroll", textStyle: {color: t.ink, fontSize: 11}, pageTextStyle: {color: t.ink},
                                pageIconColor: t.ink, inactiveColor: t.soft, ...more});

  // --- Gantt ---------------------------------------------------------------------------------------------------------

  // How long iterations of a job take, in words that stand below the chart: neither paper nor fingers have a mouse.
  const taken = (c, j) => {
    const [shown, count, least, most] = c.takes[j];
    if (!count) return "no iteration ended";
    const one = shown === null ? "" : `iteration ${c.shown} takes ${seconds(shown)}`;
    return count === 1 && one ? one : `${one}${one ? "; " : ""}${count} iterations take ${seconds(least)} to ${seconds(most)}`;
  };

  const gantt = (c, t) => {
    const kinds = c.kinds;
    const isLate = (i) => c.ideal[i] !== null && c.finish[i] > c.ideal[i] + c.late;
    const bar = (params, api) => {
      const i = api.value(0);
      const height = api.size([0, 1])[1] * 0.86 / c.lanes[i];
      const [, middle] = api.coord([0, c.row[i]]);
      const top = middle - api.size([0, 1])[1] * 0.43 + c.lane[i] * height;
      const x = (time) => api.coord([time, c.row[i]])[0];
      const area = params.coordSys;
      const clipped = (from, to, y, h) => echarts.graphic.clipRectByRect(
        {x: from, y, width: Math.max(to - from, 0.6), height: h}, area);
      const left = x(c.start[i]), right = x(c.finish[i]);
      const body = clipped(left, right, top + 0.4, Math.max(height - 0.8, 0.8));
      const children = [];
      const fill = c.shades[c.job[i]][c.what[i]];
      if (c.begin[i] < c.start[i]) {
        const waits = clipped(x(c.begin[i]), left, top + height / 2 - 0.5, 1);
        if (waits) children.push({type: "rect", shape: waits, style: {fill}});
      }
      if (body) {
        const text = c.names[c.name[i]];
        const room = body.width > text.length * 6.4 + 2 && body.height > 8;
        children.push({
          type: "rect", shape: body, style: {fill, stroke: t.paper, lineWidth: body.width > 3 ? 0.5 : 0},
          ...(room ? {textContent: {type: "text", style: {text, fill: isDark(fill) ? "#fff" : "#000", fontSize: Math.min(10, body.height)}},
                      textConfig: {position: "inside"}} : {}),
        });
      }
      if (isLate(i)) {
        const late = clipped(Math.max(x(c.ideal[i]), left), right, top + height * 0.74, Math.max(height * 0.22, 1));
        if (late) children.push({type: "rect", shape: late, style: {fill: c.red}});
      }
      if (c.ideal[i] !== null) {
        const tick = clipped(x(c.ideal[i]) - 0.7, x(c.ideal[i]) + 0.7, top, height);
        if (tick) children.push({type: "rect", shape: tick, style: {fill: t.ink}});
      }
      return {type: "group", children};
    };
    const places = c.jobs.map(() => []);
    c.job.forEach((job, i) => places[job].push([i, c.row[i], c.begin[i], c.finish[i]]));
    const digits = Math.max(3, Math.ceil(3 - Math.log10(Math.max(c.zoom[1] - c.zoom[0], 1e-9))));
    const series = c.jobs.map((job, j) => ({
      name: job, type: "custom", renderItem: bar, clip: true, itemStyle: {color: c.colours[j]},
      encode: {x: [2, 3], y: 1}, dimensions: ["bar", "row", "begin", "finish"], data: places[j], progressive: 0,
      markLine: {
        symbol: "none", silent: false, lineStyle: {type: "dashed", color: c.colours[j], width: 1.4}, label: {show: false},
        data: c.ends.filter((end) => end[0] === j).map((end) => ({
          xAxis: end[2], name: `${job}, iteration ${end[1]}: ends at ${end[2].toFixed(digits)} s, takes ${seconds(end[3])}`})),
      },
    }));
    if (series.length) {
      series[0].markArea = {
        silent: true, itemStyle: {color: t.soft, opacity: 0.16}, label: {position: "insideTopLeft", color: t.ink, fontSize: 10},
        data: c.faults.map(([what, begin, end]) => [{xAxis: begin, name: what}, {xAxis: end === null ? c.span[1] : end}]),
      };
    }
    const rowHeight = Math.min(Math.max(19, 5 * c.deepest), 46);
    const many = c.rows.length > 40;
    return {
      height: Math.min(c.rows.length * rowHeight, 1100) + 150,
      renderer: c.row.length > MOST_SVG_BARS ? "canvas" : "svg",
      group: "gantt",
      option: {
        ...base(t, c.title),
        tooltip: {...base(t).tooltip, trigger: "item", formatter: (p) => {
          if (p.componentType === "markLine") return escaped(p.name);
          if (p.componentType !== "series") return escaped(p.name || "");
          const i = p.value[0];
          const late = c.ideal[i] === null ? "" : c.finish[i] > c.ideal[i] + c.late
            ? `ideal finish ${c.ideal[i].toFixed(digits)} s: ${seconds(c.finish[i] - c.ideal[i])} late` : `ideal finish ${c.ideal[i].toFixed(digits)} s: not late`;
          return lines(`${c.jobs[c.job[i]]}, iteration ${c.iteration[i]}: ${c.names[c.name[i]]}`, `${kinds[c.what[i]]}, ${c.details[c.detail[i]]}`,
            `${c.begin[i].toFixed(digits)} s to ${c.finish[i].toFixed(digits)} s (${seconds(c.finish[i] - c.begin[i])})`, late);
        }},
        legend: legend(t, {data: c.jobs.map((name, j) => ({name, itemStyle: {color: c.colours[j]}})), top: 20, left: 0}),
        toolbox: {right: 4, top: 0, iconStyle: {borderColor: t.soft},
                  feature: {dataZoom: {yAxisIndex: "none", title: {zoom: "Zoom to what is drawn around", back: "Back"}},
                            restore: {title: "As it was"}, saveAsImage: {title: "Save picture", name: "gantt", backgroundColor: t.paper}}},
        grid: {left: 92, right: many ? 40 : 14, top: 48, bottom: 74},
        xAxis: axis(t, {type: "value", min: c.span[0], max: c.span[1], ...below("time since the run's zero (s)"),
                        axisLabel: {formatter: (v) => number(v, 6), showMinLabel: false, showMaxLabel: false}}),
        yAxis: axis(t, {type: "category", data: c.rows, inverse: true, splitLine: {show: false}, axisTick: {show: false},
                        splitArea: {show: true, interval: (i) => i % 2 === 0, areaStyle: {color: ["transparent", "transparent"]}},
                        axisLabel: {interval: many ? "auto" : 0, width: 84, overflow: "truncate"}}),
        dataZoom: [
          {type: "slider", xAxisIndex: 0, filterMode: "weakFilter", bottom: 8, height: 22, startValue: c.zoom[0], endValue: c.zoom[1],
           brushSelect: false, labelFormatter: (v) => number(v, 5), textStyle: {color: t.soft}, borderColor: t.line, moveHandleSize: 5},
          {type: "inside", xAxisIndex: 0, filterMode: "weakFilter", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false},
          ...(many ? [{type: "slider", yAxisIndex: 0, filterMode: "weakFilter", right: 6, width: 16, startValue: 0,
                       endValue: 39, brushSelect: false, showDetail: false, borderColor: t.line}] : []),
        ],
        series,
      },
      named: c.jobs.slice(0, MOST_NAMED).map((job, j) => [c.colours[j], `${job}: ${taken(c, j)}`]),
      note: [c.left_out ? `Shown are ${c.left_out}: more could not be read.` : "",
             c.jobs.length > MOST_NAMED ? `${c.jobs.length - MOST_NAMED} more jobs: iterations.csv has their times.` : ""].filter(Boolean).join(" "),
    };
  };

  // --- bars ----------------------------------------------------------------------------------------------------------

  const times = (c, t) => {
    const n = c.measures.length;
    const grids = [], xAxis = [], yAxis = [], series = [];
    c.measures.forEach((measure, m) => {
      const left = 16 + m * 28;
      grids.push({left: `${left}%`, width: "22%", top: 30, bottom: 44});
      xAxis.push(axis(t, {type: "value", gridIndex: m, ...below(`${measure} (s)`), splitNumber: 3,
                          axisLabel: {formatter: (v) => number(v, 4), hideOverlap: true}}));
      yAxis.push(axis(t, {type: "category", gridIndex: m, data: c.policies, inverse: true, splitLine: {show: false}, axisTick: {show: false},
                          axisLabel: {show: m === 0, width: 150, overflow: "truncate", interval: 0}}));
      series.push({
        type: "bar", xAxisIndex: m, yAxisIndex: m, barMaxWidth: 20,
        data: c.found[m].map((found, i) => ({value: found ? found[0] : null, itemStyle: {color: c.colours[i], ...edge(c.colours[i], t)}})),
        label: {show: true, position: "right", distance: 14, color: t.ink, fontSize: 11, formatter: (p) => p.value === null || p.value === undefined ? "" : number(p.value, 4)},
      });
      series.push({
        type: "custom", xAxisIndex: m, yAxisIndex: m, silent: true, z: 5,
        data: c.found[m].map((found, i) => [found && found[1] !== null ? found[1] : NaN, i, found && found[2] !== null ? found[2] : NaN]),
        encode: {x: [0, 2], y: 1},
        renderItem: (params, api) => {
          if (!(api.value(2) >= api.value(0))) return null;
          const [from, y] = api.coord([api.value(0), api.value(1)]);
          const [to] = api.coord([api.value(2), api.value(1)]);
          const style = {stroke: t.ink, lineWidth: 1.4};
          return {type: "group", children: [
            {type: "line", shape: {x1: from, y1: y, x2: to, y2: y}, style},
            {type: "line", shape: {x1: from, y1: y - 4, x2: from, y2: y + 4}, style},
            {type: "line", shape: {x1: to, y1: y - 4, x2: to, y2: y + 4}, style}]};
        },
      });
      series.push({
        type: "scatter", xAxisIndex: m, yAxisIndex: m, symbol: "diamond", symbolSize: 10, z: 6,
        itemStyle: {color: t.ink, borderColor: t.paper, borderWidth: 1},
        data: c.predicted[m].map((value, i) => [value, i]).filter(([value]) => value !== null),
      });
    });
    return {height: c.policies.length * 28 + 80, renderer: "svg", option: {
      ...base(t, c.job), grid: grids, xAxis, yAxis, series,
      tooltip: {...base(t).tooltip, trigger: "item", formatter: (p) => {
        const m = Math.floor(p.seriesIndex / 3), i = p.dataIndex, predicted = p.seriesIndex % 3 === 2;
        const policy = predicted ? c.policies[p.value[1]] : c.policies[i];
        const found = predicted ? null : c.found[m][i];
        return lines(policy, `${c.measures[m]}: ${seconds(predicted ? p.value[0] : found[0])}${predicted ? " (predicted)" : ""}`,
          found && found[1] !== null ? `95 % interval ${seconds(found[1])} to ${seconds(found[2])}` : "");
      }},
    }, columns: n};
  };

  const budget = (c, t) => {
    const added = c.parts.slice(1);
    return {height: c.policies.length * 28 + 120, renderer: "svg", option: {
      ...base(t, c.job),
      legend: legend(t, {top: 22, left: 0}),
      grid: {left: 160, right: 20, top: 52, bottom: 44},
      xAxis: axis(t, {type: "value", ...below("added to the ideal iteration time (ms)")}),
      yAxis: axis(t, {type: "category", data: c.policies, inverse: true, splitLine: {show: false}, axisTick: {show: false},
                      axisLabel: {width: 145, overflow: "truncate", interval: 0}}),
      tooltip: {...base(t).tooltip, trigger: "axis", axisPointer: {type: "shadow"}, formatter: (all) => lines(
        c.policies[all[0].dataIndex], `ideal: ${seconds(c.parts[0].seconds[all[0].dataIndex])}`,
        ...all.map((p) => `${p.seriesName}: ${number(p.value)} ms`))},
      series: added.map((part) => ({
        name: part.name, type: "bar", stack: "all", barMaxWidth: 18, itemStyle: {color: part.colour},
        data: part.seconds.map((value) => value === null ? null : value * 1e3),
      })),
    }};
  };

  const spent = (c, t) => ({height: c.policies.length * 28 + 130, renderer: "svg", option: {
    ...base(t, c.job),
    legend: legend(t, {top: 22, left: 0, type: "scroll"}),
    grid: {left: 160, right: 20, top: 60, bottom: 44},
    xAxis: axis(t, {type: "value", ...below("seconds of a mean iteration")}),
    yAxis: axis(t, {type: "category", data: c.policies, inverse: true, splitLine: {show: false}, axisTick: {show: false},
                    axisLabel: {width: 145, overflow: "truncate", interval: 0}}),
    tooltip: {...base(t).tooltip, trigger: "axis", axisPointer: {type: "shadow"}, formatter: (all) => lines(
      c.policies[all[0].dataIndex], ...all.filter((p) => p.value).map((p) => `${p.seriesName}: ${seconds(p.value)}`))},
    series: c.parts.map((part) => ({
      name: part.name, type: "bar", stack: "all", barMaxWidth: 18, itemStyle: {color: part.colour}, data: part.seconds,
    })),
  }});

  // --- curves --------------------------------------------------------------------------------------------------------

  const DASHES = {solid: "solid", dashed: [8, 4], dotted: [2, 3], dashdot: [8, 3, 2, 3]};

  const cdf = (c, t) => ({height: 330, renderer: "svg", option: {
    ...base(t),
    legend: legend(t, {top: 0, left: 0}),
    grid: {left: 62, right: 24, top: 32, bottom: 44},
    toolbox: {right: 0, top: 0, iconStyle: {borderColor: t.soft}, feature: {dataZoom: {title: {zoom: "Zoom", back: "Back"}}, restore: {title: "As it was"}}},
    tooltip: {...base(t).tooltip, trigger: "item", formatter: (p) => lines(p.seriesName,
      `${number(p.value[0])}: ${c.tail ? "longer take" : "no longer take"} ${number(p.value[1] * 100, 3)} %`,
      `of ${c.series.find((s) => s.name === p.seriesName).count} in all`)},
    xAxis: axis(t, {type: c.log ? "log" : "value", scale: true, ...below(c.what), axisLabel: {formatter: (v) => number(v, 4), hideOverlap: true}}),
    yAxis: axis(t, {type: c.tail ? "log" : "value", ...(c.tail ? {} : {min: 0, max: 1}), name: c.tail ? "share that takes longer" : "share",
                    nameLocation: "middle", nameGap: 44, axisLabel: {formatter: (v) => number(v, 3)}}),
    series: c.series.flatMap((s) => {
      const step = 1 / s.count;
      const points = s.x.map((x, i) => [x, c.tail ? 1 - s.y[i] + step : s.y[i]]);
      if (!c.tail && !c.log && points.length) points.unshift([points[0][0], 0]);
      return cased({name: s.name, type: "line", step: c.tail ? "start" : "end", showSymbol: points.length < 3, symbolSize: 5,
                    data: c.log ? points.filter(([x, y]) => x > 0 && (!c.tail || y > 0)) : points,
                    lineStyle: {color: s.colour, type: DASHES[s.line], width: 2}, itemStyle: {color: s.colour}}, s.colour, t);
    }),
  }});

  // --- rates ---------------------------------------------------------------------------------------------------------

  const RAMP = ["#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#dde318"]; // viridis: even in brightness
  const ramp = (place, t) => RAMP[Math.round((t.dark ? 1 - place : place) * (RAMP.length - 1))]; // first is what stands out most
  const heat = (t) => [t.grid, ...(t.dark ? RAMP : RAMP.slice().reverse())];

  const classes = (c, t) => ({height: 260, renderer: "svg", option: {
    ...base(t, c.title),
    legend: legend(t, {top: 20, left: 0}),
    grid: {left: 62, right: 16, top: 48, bottom: 44},
    tooltip: {...base(t).tooltip, trigger: "axis", formatter: (all) => lines(`${number(all[0].value[0])} s`,
      ...all.map((p) => `${p.seriesName}: ${number(p.value[1], 3)} Mbit/s`))},
    xAxis: axis(t, {type: "value", min: 0, max: c.edges[c.edges.length - 1], ...below("time since the start of the iteration (s)"),
                    axisLabel: {formatter: (v) => number(v, 4)}}),
    yAxis: axis(t, {type: "value", name: "Mbit/s", nameLocation: "middle", nameGap: 44}),
    series: c.classes.map((one) => ({
      name: one.name, type: "line", stack: "all", step: "end", showSymbol: false, lineStyle: {width: 0}, itemStyle: {color: ramp(one.place, t)},
      areaStyle: {color: ramp(one.place, t), opacity: 1}, data: [...one.mbps, one.mbps[one.mbps.length - 1]].map((rate, i) => [c.edges[i], rate]),
    })),
  }});

  const links = (c, t) => {
    const bins = c.percent[0].length;
    const cells = [];
    c.percent.forEach((row, y) => row.forEach((value, x) => { if (value > 0) cells.push([x, y, value]); }));
    const at = (bin) => number(bin / bins * c.length, 4);
    return {height: c.links.length * 15 + 110, renderer: cells.length > MOST_SVG_BARS ? "canvas" : "svg", option: {
      ...base(t, c.title + (c.of_links > c.links.length ? `: the busiest ${c.links.length} of ${c.of_links} links` : "")),
      grid: {left: 110, right: 84, top: 28, bottom: 44},
      tooltip: {...base(t).tooltip, formatter: (p) => lines(c.links[p.value[1]], `${at(p.value[0])} s to ${at(p.value[0] + 1)} s: ${number(p.value[2], 3)} %`)},
      xAxis: axis(t, {type: "category", data: c.percent[0].map((_, i) => at(i)), ...below("time since the start of the window (s)"), splitLine: {show: false},
                      axisLabel: {interval: Math.floor(bins / 6), hideOverlap: true}}),
      yAxis: axis(t, {type: "category", data: c.links, inverse: true, splitLine: {show: false}, axisLabel: {interval: 0, fontSize: 10, width: 100, overflow: "truncate"}}),
      visualMap: {type: "continuous", min: 0, max: 100, right: 0, top: "middle", calculable: true, itemHeight: 120, itemWidth: 12, text: ["100 %", "0 %"],
                  textStyle: {color: t.ink, fontSize: 10}, inRange: {color: heat(t)}},
      series: [{type: "heatmap", data: cells, progressive: 0}],
    }};
  };

  // --- decisions -----------------------------------------------------------------------------------------------------

  const SYMBOLS = ["circle", "rect", "triangle", "diamond", "roundRect", "pin", "arrow"];

  const decisions = (c, t) => ({height: 320, renderer: c.time.length > 800 ? "canvas" : "svg", option: {
    ...base(t, c.title),
    legend: legend(t, {top: 20, left: 0}),
    grid: {left: 66, right: 16, top: 48, bottom: 74},
    dataZoom: [{type: "slider", bottom: 8, height: 20, borderColor: t.line, textStyle: {color: t.soft}, brushSelect: false, labelFormatter: (v) => number(v, 5)},
               {type: "inside", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false}],
    tooltip: {...base(t).tooltip, trigger: "item", formatter: (p) => {
      const i = p.value[2];
      return lines(c.reason[i], `${number(c.time[i], 6)} s; took ${number(c.took_ms[i])} ms, of which the policy ${number(c.policy_ms[i])} ms`,
        `${c.flows[i]} flows of ${c.groups[i]} groups, ${c.changed[i]} settings changed`);
    }},
    xAxis: axis(t, {type: "value", scale: true, ...below("time since the run's zero (s)"), axisLabel: {formatter: (v) => number(v, 5)}}),
    yAxis: axis(t, {type: "log", name: "decision (ms)", nameLocation: "middle", nameGap: 48, axisLabel: {formatter: (v) => number(v, 3)}}),
    series: c.kinds.map((kind, k) => ({
      name: `${kind} (${c.counts[k]})`, type: "scatter", symbol: SYMBOLS[k % SYMBOLS.length], symbolSize: 6, itemStyle: {color: c.colours[k], opacity: 0.8},
      data: c.of_kind.map((one, i) => [one, i]).filter(([one, i]) => one === k && c.took_ms[i] > 0).map(([, i]) => [c.time[i], c.took_ms[i], i]),
    })),
  }});

  const MOST_ROWS = 200;

  const decisionTable = (holder) => {
    const c = charts[holder.dataset.decisions];
    const words = document.createElement("input");
    words.type = "search";
    words.placeholder = "part of a reason, such as a flow's name";
    words.size = 40;
    const table = document.createElement("table");
    table.className = "dense";
    const note = document.createElement("p");
    note.className = "soft";
    const cell = (tag, text, left) => {
      const made = document.createElement(tag);
      made.textContent = text; // never markup
      if (left) made.className = "left wrap";
      return made;
    };
    const show = () => {
      const wanted = words.value.toLowerCase();
      const rows = c.reason.map((_, i) => i).filter((i) => c.reason[i].toLowerCase().includes(wanted));
      const head = document.createElement("tr");
      ["time (s)", "flows", "groups", "changed", "policy (ms)", "total (ms)"].forEach((name) => head.append(cell("th", name)));
      head.append(cell("th", "reason", true));
      table.replaceChildren(head, ...rows.slice(0, MOST_ROWS).map((i) => {
        const row = document.createElement("tr");
        [number(c.time[i], 6), c.flows[i], c.groups[i], c.changed[i], number(c.policy_ms[i]), number(c.took_ms[i])].forEach((v) => row.append(cell("td", v)));
        row.append(cell("td", c.reason[i], true));
        return row;
      }));
      note.textContent = rows.length > MOST_ROWS ? `The first ${MOST_ROWS} of ${rows.length}; decisions.jsonl has all.` : `${rows.length} of ${c.reason.length}`;
    };
    words.addEventListener("input", show);
    holder.append(words, note, table);
    show();
  };

  // --- the page ------------------------------------------------------------------------------------------------------

  // Values by steps; lines of equal values lie on each other, the later ones above.
  const curve = (c, t) => ({height: 330, renderer: "svg", option: {
    ...base(t),
    legend: legend(t, {top: 0, left: 0}),
    grid: {left: 62, right: 24, top: 32, bottom: 44},
    tooltip: {...base(t).tooltip, trigger: "axis", formatter: (all) => lines(`${c.of}, ${c.x} ${all[0].value[0]}`,
      ...all.map((p) => `${p.seriesName}: ${number(p.value[1], 6)}`))},
    xAxis: axis(t, {type: "value", scale: true, minInterval: 1, ...below(`${c.of}: ${c.x}`)}),
    yAxis: axis(t, {type: "value", scale: true, name: c.y, nameLocation: "middle", nameGap: 44}),
    series: c.series.flatMap((s) => cased({
      name: s.name, type: "line", symbolSize: 5, showSymbol: s.x.length < 60, data: s.x.map((x, i) => [x, s.y[i]]),
      lineStyle: {color: s.colour, type: DASHES[s.line], width: 2}, itemStyle: {color: s.colour},
    }, s.colour, t)),
  }});

  const KIND_OF = {gantt, times, budget, spent, cdf, curve, classes, links, decisions};
  window.echelonReport = {charts, kinds: KIND_OF, base, axis, below, legend, look, lines, number, seconds, dashes: DASHES, cased, heat, drawn, draw, redraw: [],
                          resized: (id) => scalable(drawn.get(id), document.getElementById(id))};

  function paragraph(text) {
    const made = document.createElement("p");
    made.className = "soft";
    made.textContent = text;
    return made;
  }

  // Words, each behind the colour that it is of.
  function named(all) {
    const made = paragraph("");
    made.classList.add("named");
    all.forEach(([colour, text]) => {
      const one = document.createElement("span"), swatch = document.createElement("i");
      swatch.className = "swatch";
      swatch.style.background = colour;
      one.append(swatch, text);
      made.append(one, " ");
    });
    return made;
  }

  function draw(id) {
    const holder = document.getElementById(id);
    const chart = charts[id];
    const made = KIND_OF[chart.kind](chart, look());
    holder.style.height = `${made.height}px`;
    let instance = drawn.get(id);
    if (!instance) {
      instance = echarts.init(holder, null, {renderer: made.renderer});
      if (made.group) instance.group = made.group;
      drawn.set(id, instance);
      if (made.note) holder.after(paragraph(made.note));
      if (made.named) holder.after(named(made.named));
    }
    if (!printing.matches) instance.resize({width: "auto", height: made.height});
    const zoom = instance.getOption() && instance.getOption().dataZoom;
    instance.setOption(made.option, {notMerge: true});
    if (zoom) zoom.forEach((one, i) => instance.dispatchAction({type: "dataZoom", dataZoomIndex: i, start: one.start, end: one.end}));
    scalable(instance, holder);
  }

  // In print a chart is a picture of what it was on the screen, as large as there is room.
  function scalable(instance, holder) {
    if (printing.matches) return;
    holder.style.setProperty("--ratio", `${instance.getWidth()} / ${instance.getHeight()}`);
    const svg = holder.querySelector("svg");
    if (svg) svg.setAttribute("viewBox", `0 0 ${instance.getWidth()} ${instance.getHeight()}`);
  }

  const drawAll = () => {
    Object.keys(charts).filter((id) => document.getElementById(id)).forEach(draw);
    window.echelonReport.redraw.forEach((again) => again());
  };
  const start = () => {
    drawAll();
    echarts.connect("gantt");
    document.querySelectorAll("[data-decisions]").forEach((holder) => {
      const details = holder.closest("details");
      details.addEventListener("toggle", () => { if (details.open && !holder.childElementCount) decisionTable(holder); });
    });
    new ResizeObserver(() => { if (!printing.matches) drawn.forEach((one, id) => {
      one.resize();
      scalable(one, document.getElementById(id));
    }); }).observe(document.body);
    dark.addEventListener("change", drawAll);
    // Print is always on white: the style sheet says so, and charts follow.
    printing.addEventListener("change", drawAll);
    document.documentElement.dataset.drawn = "yes";
  };
  start();
})();
