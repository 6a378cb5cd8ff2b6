// The page before a question: what is stored of the tenant, and what can be done with it.
import { access } from "./address.js";
import { byId, day, fill, h, plural } from "./elements.js";
import { examples } from "./examples.js";
import { judgedLines, keepQuestion, savedQuestions } from "./kept.js";
import { link, to } from "./links.js";
import { get, post } from "./server.js";
import { mine } from "./tenants.js";
import { keepDrops, offerUpload } from "./upload.js";

const DOCUMENTS = 12;
const MOST_DOCUMENTS = 100; // of a page, and so those that are counted
const NAMES = 24;
const VERTICES = 500; // of the graph, read at once
const MOST_VERTICES = 2_000; // among which the best connected names are looked for
const HOW_TO_BEGIN = "braid demo brings two archives to try, braid ingest your own.";

let turn = 0;

/** Show it; `onAsk` asks a question, `onRefused` says why something cannot be shown. */
export async function showHome({ onAsk, onRefused }) {
  turn += 1;
  const present = turn;
  const { token } = access();
  byId("welcome").hidden = false;
  byId("no-token").hidden = Boolean(token);
  byId("store").hidden = true;
  showKept(onAsk);
  if (!token) {
    byId("access").open = true;
    return;
  }
  try {
    const [stats, documents, names] = await Promise.all([get("stats"), get(`documents?limit=${MOST_DOCUMENTS}`), bestConnected()]);
    const offered = await examples(access().tenant, names, documents.documents);
    if (present !== turn) return;
    byId("store").hidden = false;
    fill("counts", counted(stats, documents, names));
    fill("begin", offered.map(([text, note, controls = {}]) =>
      h("li", {}, h("button", { type: "button", on: { click: () => onAsk(text, controls) } }, h("span", {}, text), h("small", {}, note)))));
    byId("begin-section").hidden = !offered.length;
    byId("nothing").hidden = stats.records + stats.vertices > 0;
    byId("nothing").textContent = `Nothing is stored for this tenant yet: ${HOW_TO_BEGIN}`;
    showNames(names, stats);
    showDocuments(documents);
    const allowed = await mine();
    if (present === turn) offerUpload(allowed, () => showHome({ onAsk, onRefused }));
  } catch (error) {
    if (present === turn) onRefused(error);
  }
}

export function leaveHome() {
  turn += 1;
  byId("welcome").hidden = true;
}

/** The named entities of the graph's first vertices, the best connected first; all of them where it is small. */
async function bestConnected() {
  const found = [];
  let next = null;
  let read = 0;
  do {
    const page = await get(`entities?limit=${VERTICES}${next ? `&after=${encodeURIComponent(next)}` : ""}`);
    found.push(...page.entities.filter((entity) => entity.entity_type !== "Document"));
    next = page.next;
    read += VERTICES;
  } while (next && read < MOST_VERTICES);
  found.sort((one, other) => other.relations - one.relations);
  return { entities: found, more: Boolean(next) };
}

function counted(stats, { documents, next }, { entities, more }) {
  const figures = [
    [documents.length, "document", next],
    [stats.by_kind.chunk ?? 0, "chunk", false],
    [entities.length, "name", more],
    [stats.relationships, "relationship", false],
  ];
  return figures.map(([count, one, further]) => h("div", {},
    h("dt", {}, count === 1 && !further ? one : `${one}s`),
    h("dd", {}, further ? h("small", {}, "more than ") : null, count.toLocaleString("en"))));
}

function showNames({ entities, more }, stats) {
  byId("names-section").hidden = !stats.vertices;
  byId("names-said").textContent = more
    ? `Of the first ${MOST_VERTICES.toLocaleString("en")} vertices of the graph, those with most relations.`
    : entities.length ? "With the number of their relations." : "None of its vertices has a name.";
  const shown = (most) => {
    fill("names", entities.slice(0, most).map((entity) => h("li", {},
      link(to({ entity: entity.id }), entity.name), h("span", { class: "figure", title: plural(entity.relations, "relation") }, entity.relations.toLocaleString("en")))));
    onward("more-names", most < entities.length, () => shown(most + 4 * NAMES));
  };
  shown(NAMES);
}

/** Go to the entity that is called so. */
export async function findName(name) {
  const found = await post("graph/query", { start: { names: [name] }, limit: 1 });
  const entity = found.hits[0];
  byId("find-said").textContent = entity ? "" : "The graph has nothing of this name.";
  if (entity) location.hash = to({ entity: entity.id });
}

function showDocuments(first) {
  byId("documents-section").hidden = !first.documents.length;
  byId("documents").replaceChildren();
  const rest = first.documents.slice(DOCUMENTS);
  let { next } = first;
  const add = (documents) => {
    byId("documents").append(...documents.map(listed));
    onward("more-documents", Boolean(rest.length || next), more);
  };
  const more = async () => {
    if (rest.length) return add(rest.splice(0));
    const page = await get(`documents?limit=${MOST_DOCUMENTS}&after=${encodeURIComponent(next)}`);
    next = page.next;
    return add(page.documents);
  };
  add(first.documents.slice(0, DOCUMENTS));
}

function listed({ id, title, file, format, timestamp, updated_at: changed }) {
  const said = [file ?? (id === title ? null : id), format, (timestamp ?? changed) && day(timestamp ?? changed)];
  return h("li", {}, link(to({ document: id }), title), h("span", { class: "quiet" }, said.filter(Boolean).join(" · ")));
}

function onward(id, more, show) {
  byId(id).hidden = !more;
  byId(id).onclick = show;
}

/** Saved questions, and the judged ones as a file. */
function showKept(onAsk) {
  const saved = savedQuestions();
  byId("saved-section").hidden = !saved.length;
  fill("saved", saved.map((address) => {
    const given = new URLSearchParams(address);
    const controls = [...given.entries()].filter(([name]) => !["q", "tenant"].includes(name)).map(([name, value]) => `${name} ${value}`);
    return h("li", {},
      link(`#${address}`, given.get("q") ?? ""),
      h("span", { class: "quiet" }, controls.join(" · ")),
      h("button", { type: "button", class: "plain", on: { click: () => {
        keepQuestion(address, false);
        showKept(onAsk);
      } } }, "Forget", h("span", { class: "unseen" }, `: ${given.get("q")}`)));
  }));
  const lines = judgedLines();
  byId("judged-section").hidden = !lines.length;
  byId("judged-said").textContent = `${plural(lines.length, "question")} of this tenant ${lines.length === 1 ? "has" : "have"} results that you judged in this browser.`;
}

function download() {
  const url = URL.createObjectURL(new Blob([`${judgedLines().join("\n")}\n`], { type: "application/jsonl" }));
  h("a", { href: url, download: `judged-${access().tenant || "questions"}.jsonl` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

keepDrops();
byId("judged").addEventListener("click", download);
byId("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = byId("find-name").value.trim();
  if (name) findName(name).catch((error) => { byId("find-said").textContent = error.title; });
});
