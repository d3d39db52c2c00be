// Shows what state.json says, once a second. All text of others is set as text, never as markup.
"use strict";

const POLL_MS = 1000, LOST_AFTER = 3, SHOWN_LINKS = 12, LONGEST_PAST = 900, CLASSES = 8;
const SVG = "http://www.w3.org/2000/svg";
const $ = id => document.getElementById(id);
let drawing = null, loads = [], past = [], runShown = "", failures = 0, over = false;

function put(parent, tag, attributes = {}, text = null) {
  const made = parent instanceof SVGElement ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== null) made.textContent = text;
  return parent.appendChild(made);
}
const seconds = value => value === null || value === undefined ? "–" : `${value.toFixed(3)} s`;
const mbit = bps => (bps / 1e6).toFixed(bps < 1e6 ? 2 : 1);
const sum = values => values.reduce((a, b) => a + b, 0);
const classColour = number => `var(--c${number})`;
const jobColour = number => `var(--j${number % 8})`;

async function ask(path, options) {
  const answer = await fetch(path, options);
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error || answer.statusText);
  return body;
}

// ---- the network ----

function draw() {
  const svg = $("network"), hosts = drawing.nodes.filter(node => node.layer === 0).length;
  const layers = 1 + Math.max(...drawing.nodes.map(node => node.layer));
  const widest = Math.max(...Array.from({length: layers}, (_, i) => drawing.nodes.filter(n => n.layer === i).length));
  const width = Math.max(560, widest * 46), height = 40 + layers * 90, labelled = width / widest >= 30;
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const at = new Map(drawing.nodes.map(node =>
    [node.name, {x: node.across * width, y: height - 35 - node.layer * ((height - 70) / Math.max(layers - 1, 1))}]));
  const between = new Map();
  loads = drawing.links.map(link => {
    // The two directions of a cable run side by side, parallel cables farther out.
    const from = at.get(link.src), to = at.get(link.dst), key = `${link.src} ${link.dst}`;
    const nth = between.get(key) || 0;
    between.set(key, nth + 1);
    const dx = to.x - from.x, dy = to.y - from.y, length = Math.hypot(dx, dy) || 1, aside = 4 + nth * 9;
    const ends = {x1: from.x - dy / length * aside, y1: from.y + dx / length * aside,
                  x2: to.x - dy / length * aside, y2: to.y + dx / length * aside};
    const group = put(svg, "g");
    const title = put(group, "title", {}, link.name);
    put(group, "line", {...ends, class: "wire"});
    return {group, title, ends, lines: []};
  });
  for (const node of drawing.nodes) {
    const {x, y} = at.get(node.name), group = put(svg, "g");
    put(group, "title", {}, node.name);
    const half = labelled ? 8 + 4 * Math.min(node.name.length, 10) : 6;
    put(group, "rect", {x: x - half, y: y - 12, width: 2 * half, height: 24, rx: node.layer ? 3 : 12, class: "node"});
    if (labelled) put(group, "text", {x, y}, node.name.length > 10 ? node.name.slice(0, 9) + "…" : node.name);
  }
  $("network").setAttribute("data-hosts", hosts);
}

function fill(shown) {
  drawing.links.forEach((link, i) => {
    const {group, title, ends, lines} = loads[i], bps = shown ? shown.by_class_bps[i] : Array(CLASSES).fill(0);
    let begin = 0;
    bps.forEach((one, number) => {
      const share = Math.min(one / link.rate_bps, 1 - begin);
      if (!lines[number] && share > 0.001)
        lines[number] = put(group, "line", {...ends, class: "load", pathLength: 1, stroke: classColour(number)});
      if (lines[number]) lines[number].setAttribute("stroke-dasharray", `0 ${begin} ${share} 2`);
      begin += Math.max(share, 0);
    });
    title.textContent = `${link.name}: ${(100 * sum(bps) / link.rate_bps).toFixed(0)} % of ${mbit(link.rate_bps)} Mbit/s`;
  });
}

function listLinks(shown) {
  const body = $("links").tBodies[0];
  body.replaceChildren();
  $("links-source").textContent = shown
    ? `Megabits per second by traffic class over the last ${shown.over_s.toFixed(1)} s, Ethernet headers included, as the ` +
      "kernel's own queues counted them (HTB classes). Class 0 is control and acknowledgements."
    : "Links are read while a run goes on.";
  if (!shown) return;
  const rows = drawing.links.map((link, i) => ({link, bps: shown.by_class_bps[i], all: sum(shown.by_class_bps[i])}));
  rows.sort((a, b) => b.all / b.link.rate_bps - a.all / a.link.rate_bps);
  for (const {link, bps, all} of $("all-links").checked ? rows : rows.slice(0, SHOWN_LINKS)) {
    const row = put(body, "tr");
    put(row, "th", {scope: "row"}, link.name);
    put(row, "td", {}, `${(100 * all / link.rate_bps).toFixed(1)} %`);
    for (const one of bps) put(row, "td", {}, one ? mbit(one) : "·");
  }
}

// ---- jobs and tardiness ----

function listJobs(live) {
  const body = $("jobs").tBodies[0], known = new Map((live ? live.jobs : []).map(job => [job.job, job]));
  body.replaceChildren();
  for (const [place, job] of drawing.jobs.entries()) {
    const now = known.get(job.name), row = put(body, "tr");
    put(row, "th", {scope: "row", class: "words"}, job.name);
    put(row, "td", {class: "words"}, hostsOf(job.hosts));
    put(row, "td", {}, now ? `${now.iteration + 1} of ${job.iterations}` : "–");
    put(row, "td", {}, now ? seconds(now.lasted_s) : "–");
    const more = now ? now.groups_in_flight - now.groups.length : 0;
    put(row, "td", {class: "words"}, now && now.groups.length ? now.groups.join(", ") + (more > 0 ? `, and ${more} more` : "") : "–");
    put(row, "td", {}, now ? now.flows_in_flight : "–");
    const late = now && now.late_s > 0;
    put(row, "td", late ? {class: "late"} : {}, now && now.late_s !== null ? (late ? seconds(now.late_s) : "in time") : "–");
    put(row, "td", {}, now && now.ended_groups ? seconds(now.tardiness_s / now.ended_groups) : "–");
    put(row, "td", {}, now && now.ended_groups ? seconds(now.worst_tardiness_s) : "–");
    put(row, "td", {}, now && now.ended_groups ? seconds(now.tardiness_s) : "–");
    if (place >= 99) break;
  }
  const shown = Math.min(drawing.jobs.length, 100);
  $("more-jobs").hidden = shown === drawing.jobs.length;
  $("more-jobs").textContent = `The first ${shown} of ${drawing.jobs.length} jobs.`;
}

function hostsOf(hosts) {
  const each = [...new Set(hosts)];
  return each.length > 6 ? `${each.slice(0, 5).join(", ")}, and ${each.length - 5} more` : each.join(", ");
}

function plot(live) {
  const run = live && live.run ? live.run.name : "";
  if (run && run !== runShown) { past = []; runShown = run; }
  if (run && live.run.started)
    past.push({at: live.run.elapsed_s, of: new Map(live.jobs.map(job => [job.job, job.tardiness_s]))});
  if (past.length > LONGEST_PAST) past.shift();
  const svg = $("tardiness"), width = 600, height = 140;
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  if (past.length < 2) return;
  const first = past[0].at, last = past[past.length - 1].at;
  const most = Math.max(1e-9, ...past.map(one => Math.max(0, ...one.of.values())));
  put(svg, "line", {x1: 0, x2: width, y1: height - 1, y2: height - 1, class: "grid"});
  put(svg, "line", {x1: 0, x2: width, y1: 14, y2: 14, class: "grid"});
  drawing.jobs.slice(0, 100).forEach((job, place) => {
    const points = past.filter(one => one.of.has(job.name)).map(one =>
      `${(one.at - first) / Math.max(last - first, 1e-9) * width},${height - 1 - one.of.get(job.name) / most * (height - 15)}`);
    put(svg, "polyline", {points: points.join(" "), class: "curve", stroke: jobColour(place),
                          "stroke-dasharray": ["none", "6 3", "2 2"][Math.floor(place / 8) % 3]});
  });
  $("tardiness-words").textContent = `Sum over the groups that have ended, by job: up to ${seconds(most)} ` +
    `from ${first.toFixed(1)} to ${last.toFixed(1)} s of the run.`;
}

// ---- decisions and the policy ----

const flowName = one => `${one.job}/${one.flow} #${one.iteration}`;

function explain(live) {
  const made = live && live.decision, body = $("order").tBodies[0], recent = $("recent");
  body.replaceChildren();
  recent.replaceChildren();
  if (!made) { $("why").textContent = "Nothing was decided yet."; return; }
  $("why").textContent = `Decision ${made.number}, ${seconds(made.time_s)} into the run, by ${made.policy}, ` +
    `because of: ${made.trigger}. It looked at ${made.flows} flows of ${made.groups} groups, took ` +
    `${made.total_ms.toFixed(1)} ms, and changed ${made.changes} settings.`;
  const changed = new Map(made.changed.map(one => [flowName(one), one]));
  for (const flow of made.order) {
    const row = put(body, "tr"), due = flow.due_s - made.time_s, change = changed.get(flowName(flow));
    put(row, "td", {}, flow.rank);
    put(row, "td", {class: "words"}, flowName(flow));
    put(row, "td", {}, flow.traffic_class === null ? "–" : flow.traffic_class);
    put(row, "td", {}, mbit(8 * flow.rate_Bps));
    put(row, "td", due < 0 ? {class: "late"} : {}, due < 0 ? `${seconds(-due)} late` : seconds(due));
    put(row, "td", {class: "words"}, change ? settingOf(change) : "");
  }
  if (made.flows > made.order.length)
    put(put(body, "tr"), "td", {colspan: 6}, `and ${made.flows - made.order.length} more flows`);
  for (const one of live.recent)
    put(recent, "li", {value: one.number}, `${seconds(one.time_s)}: ${one.trigger} (${one.flows} flows, ${one.changes} changed)`);
}

function settingOf(change) {
  if (change.rate_Bps === 0) return "waits";
  return `class ${change.traffic_class}` + (change.rate_Bps === null ? "" : `, ${mbit(8 * change.rate_Bps)} Mbit/s`);
}

async function listPolicies() {
  const choice = $("choice"), policies = await ask("policies.json");
  for (const policy of policies) put(choice, "option", {value: policy.name}, policy.name);
  const say = () => {
    const policy = policies.find(one => one.name === choice.value);
    const options = policy.options.map(one => `${one.name}=${one.values}`).join("; ");
    $("about").textContent = `${policy.summary}${options ? ` Options: ${options}` : ""}`;
    $("options").value = "";
  };
  choice.addEventListener("change", say);
  choice.value = policies.some(one => one.name === "echelonflow") ? "echelonflow" : choice.value;
  say();
}

async function swap(event) {
  event.preventDefault();
  const options = $("options").value.trim().replace(/^\(|\)$/g, ""), answer = $("answer");
  const policy = $("choice").value + (options ? `(${options})` : "");
  answer.className = "";
  answer.textContent = `Ordering ${policy} …`;
  try {
    const now = await ask("policy", {method: "PUT", headers: {"Content-Type": "application/json"}, body: JSON.stringify({policy})});
    answer.textContent = `In force: ${now.policy}, enforced by ${now.enforcer}. The run still counts as one of the policy it began with.`;
    $("policy").textContent = `${now.policy} (${now.enforcer})`;
  } catch (error) {
    answer.className = "refused";
    answer.textContent = `Not swapped: ${error.message}`;
  }
}

// ---- once a second ----

function show(state) {
  const live = state.controller, run = live && live.run;
  $("stage").textContent = state.stage;
  $("facts").textContent = run
    ? `${run.started ? `${run.elapsed_s.toFixed(1)} s into the run` : "the run is about to start"}; ${run.flows_in_flight} flows in ` +
      `flight; ${live.decisions} decisions, ${live.swaps} swaps, ${live.fallbacks} policies that failed`
    : (live || state.ended ? "" : state.silence);
  $("policy").textContent = run ? `${run.policy} (${run.enforcer})` : "none";
  $("warnings").hidden = !state.warnings.length;
  $("warnings").replaceChildren();
  for (const words of state.warnings) put($("warnings"), "li", {}, words);
  fill(state.links);
  listLinks(state.links);
  if (run || !state.ended) {
    listJobs(live);
    plot(live);
    explain(live);
  }
  end(state.ended);
}

function end(words) {
  over = Boolean(words);
  $("ended").hidden = !over;
  $("ended-words").textContent = words;
  $("ended-report").hidden = !drawing;
  if (drawing) $("report").textContent = drawing.report;
  document.querySelectorAll("#swap select, #swap input, #swap button").forEach(one => { one.disabled = over; });
}

async function begin() {
  drawing = await ask("network.json");
  $("experiment").textContent = drawing.title;
  document.title = `${drawing.experiment} – Echelon live`;
  past = [];
  $("job-colours").replaceChildren();
  drawing.jobs.slice(0, 24).forEach((job, place) => legend($("job-colours"), jobColour(place), job.name));
  draw();
}

function legend(list, colour, words) {
  const item = put(list, "li"), svg = item.appendChild(document.createElementNS(SVG, "svg"));
  svg.setAttribute("aria-hidden", "true");
  put(svg, "rect", {width: "100%", height: "100%", fill: colour});
  put(item, "span", {}, words);
}

async function poll() {
  if (!document.hidden) {
    try {
      const state = await ask("state.json");
      failures = 0;
      if (state.number && (!drawing || drawing.number !== state.number)) await begin();
      if (drawing) show(state); else $("stage").textContent = state.stage;
    } catch (error) {
      failures += 1;
      if (failures >= LOST_AFTER && !over) {
        $("facts").textContent = "";
        fillNothing();
        end("Nobody answers any more: the experiment has ended, or was killed.");
      }
    }
  }
  setTimeout(poll, POLL_MS);
}

function fillNothing() {
  if (drawing) { fill(null); listLinks(null); }
}

const head = $("links").tHead.rows[0];
for (const words of ["link", "load", ...Array.from({length: CLASSES}, (_, i) => `class ${i}`)]) put(head, "th", {scope: "col"}, words);
for (let i = 0; i < CLASSES; i += 1) legend($("classes"), classColour(i), i ? `class ${i}${i === 1 ? " (first)" : i === 7 ? " (last)" : ""}` : "class 0 (control)");
$("swap").addEventListener("submit", swap);
listPolicies().catch(error => { $("answer").textContent = error.message; });
poll();
