// Draws the paths of an answer; every vertex is a button that asks for its relations.
import { apart, byId, fill, plural, s } from "./elements.js";
import { indented, layered, lines } from "./layout.js";
import { forward } from "./relations.js";

const BESIDE = { size: { width: 184, height: 60 }, beside: 14, along: { least: 76, most: 130 } };
const BELOW = { height: 60, gap: 24, indent: 18 };
const LEAST_PX = 640;
const WIDEST_PX = 420;
const LETTER_PX = 7.4;
const MARGIN = 8;
const PADDING = 22;
const MOST_WALKS = 24;

let shown = { answer: null, walks: [], chosen: null, open: () => {} };

/** Show the paths of an answer's results. */
export function showGraph(answer, open) {
  const walks = answer.results.flatMap((result) => result.paths).slice(0, MOST_WALKS);
  shown = { answer, walks, chosen: null, open };
  byId("graph-section").dataset.empty = String(walks.length === 0);
  if (walks.length) draw();
  else fill("graph");
  say();
}

function say() {
  const results = shown.answer.results.filter((result) => result.paths.length).length;
  byId("graph-said").textContent = shown.walks.length
    ? `${plural(results, "result")} of this answer ${results === 1 ? "was" : "were"} reached by these paths. Choose a name to see all its relations.`
    : "No result of this answer was reached by a path: text or a name alone found them all.";
}

/** Add an entity's relations to the picture, and mark it. */
export function addRelations(id, hits) {
  const known = new Set(shown.walks.flatMap((walk) => walk.ids));
  if (!known.has(id) || !shown.walks.length) return;
  shown.chosen = id;
  shown.walks = shown.walks.filter((walk) => !walk.faint);
  const more = hits.filter((hit) => hit.path.types.length === 1 && !known.has(hit.id)).slice(0, 6);
  shown.walks.push(...more.map((hit) => ({ ...hit.path, faint: true })));
  draw();
}

/** Let what is not among these ids step back; null shows all alike. */
export function point(ids) {
  const wanted = ids && new Set(ids);
  const any = wanted && shown.walks.some((walk) => walk.ids.some((id) => wanted.has(id)));
  for (const part of byId("graph").querySelectorAll("[data-ids]")) {
    const all = JSON.parse(part.dataset.ids).every((id) => any && wanted.has(id));
    part.classList.toggle("back", Boolean(any) && !all);
  }
}

function draw() {
  const box = byId("graph");
  const room = Math.max(200, box.clientWidth - PADDING - 2 * MARGIN);
  const wide = room < LEAST_PX ? null : layered(shown.walks, { ...BESIDE, room });
  const { vertices, edges, width, height } = wide ?? indented(shown.walks, { ...BELOW, width: Math.min(room, WIDEST_PX) });
  const at = new Map(vertices.map((vertex) => [vertex.id, vertex]));
  const focused = document.activeElement?.closest?.("[data-vertex]")?.dataset.vertex;
  const whole = { width: width + 2 * MARGIN, height: height + 2 * MARGIN };
  const picture = s("svg", {
    ...whole, viewBox: `${-MARGIN} ${-MARGIN} ${whole.width} ${whole.height}`, role: "group",
    "aria-label": "Paths from what the question names or finds to the results",
  },
  s("defs", {}, s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
    s("path", { d: "M0 0L8 4L0 8z", class: "head" }))),
  edges.map((edge) => drawnEdge(edge, at.get(edge.from), at.get(edge.to), wide ? across : downwards)),
  vertices.map(drawnVertex));
  box.replaceChildren(picture);
  if (focused) [...box.querySelectorAll("[data-vertex]")].find((one) => one.dataset.vertex === focused)?.focus();
}

function drawnEdge(edge, from, to, geometry) {
  const { d, ...label } = geometry(from, to);
  const type = forward(edge.type);
  return s("g", { class: `edge${edge.faint ? " faint" : ""}`, "data-ids": JSON.stringify([edge.from, edge.to]), "aria-hidden": "true" },
    s("title", {}, `${from.name} ${type} ${to.name}${edge.evidence ? `, known from ${edge.evidence}` : ""}`),
    s("path", { d, "marker-end": "url(#arrow)" }),
    s("text", label, type));
}

/** From layer to layer; the label is nearer to the right-hand end, where edges that begin together lie apart. */
function across(from, to) {
  const [y1, y2] = [from.y + from.height / 2, to.y + to.height / 2];
  if (from.x === to.x) {
    const x = from.x + from.width;
    return { d: `M${x} ${y1}C${x + 44} ${y1} ${x + 44} ${y2} ${x + 2} ${y2}`, x: x + 40, y: (y1 + y2) / 2 };
  }
  const forth = to.x > from.x;
  const [x1, x2] = forth ? [from.x + from.width, to.x - 2] : [from.x, to.x + to.width + 2];
  const middle = (x1 + x2) / 2;
  const part = (one, other, share) => (forth ? one + (other - one) * share : other + (one - other) * share);
  return { d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`, x: part(x1, x2, 0.6), y: part(y1, y2, 0.72) - 4 };
}

/** From a vertex to one further down, along the indentation; the label is above the lower one. */
function downwards(from, to) {
  const [upper, lower] = from.y < to.y ? [from, to] : [to, from];
  const [x, y] = [upper.x + 9, lower.y + lower.height / 2];
  const bottom = upper.y + upper.height;
  const label = { class: "beside", x: lower.x + 8, y: lower.y - 7 };
  if (lower.parent !== upper.id) {
    const side = Math.max(upper.x + upper.width, lower.x + lower.width);
    const ends = [`${side} ${from.y + from.height / 2}`, `${side} ${to.y + to.height / 2}`];
    return { d: `M${ends[0]}L${side + 5} ${from.y + from.height / 2}V${to.y + to.height / 2}L${ends[1]}`, ...label, x: side - 60, class: "" };
  }
  return { d: to === lower ? `M${x} ${bottom}V${y}H${lower.x - 1}` : `M${lower.x} ${y}H${x}V${bottom + 1}`, ...label };
}

function drawnVertex(vertex) {
  const result = shown.answer.results.find((one) => one.id === vertex.id);
  const linked = shown.answer.related_entities.some((one) => one.linked && one.id === vertex.id);
  const faint = !result && !linked && !shown.walks.some((walk) => !walk.faint && walk.ids.includes(vertex.id));
  const role = linked ? "named in the question" : result ? `result ${result.rank}` : faint ? "related" : "on the way";
  const left = result ? 36 : 14;
  const text = lines(vertex.name, Math.floor((vertex.width - left - 6) / LETTER_PX));
  const open = () => shown.open(vertex.id);
  return s("g", {
    class: `vertex${result ? " result" : ""}${linked ? " linked" : ""}${faint ? " faint" : ""}`,
    transform: `translate(${vertex.x} ${vertex.y})`, tabindex: 0, role: "button",
    "aria-label": `${vertex.name}, ${role}: show its relations`, "aria-pressed": String(vertex.id === shown.chosen),
    "data-vertex": vertex.id, "data-ids": JSON.stringify([vertex.id]),
    on: {
      click: open,
      keydown: (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          open();
        }
      },
    },
  },
  s("title", {}, `${vertex.name} (${role})`),
  s("rect", { width: vertex.width, height: vertex.height, rx: 10 }),
  result ? s("circle", { cx: 19, cy: vertex.height / 2, r: 11 }) : null,
  result ? s("text", { class: "number", x: 19, y: vertex.height / 2 + 4 }, `${result.rank}`) : null,
  text.map((line, place) => s("text", { x: left, y: vertex.height / 2 + 5 + (place - (text.length - 1) / 2) * 16 }, apart(line))));
}

/** Draw anew when there is more or less room. */
export function keepDrawn() {
  let before = null;
  new ResizeObserver(([entry]) => {
    const room = Math.round(entry.contentRect.width);
    if (before !== null && before !== room && room && shown.walks.length) draw();
    before = room;
  }).observe(byId("graph"));
}
