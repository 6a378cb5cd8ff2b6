// The page of one document: what it says of itself, its chunks in their order, and the names in it.
import { day, fill, h, plural, shortened } from "./elements.js";
import { link, to } from "./links.js";
import { get, post } from "./server.js";

const PAGE = 100;
const MOST = 500;
const MOST_STARTS = 200;
const MOST_NAMES = 40;
const OF_CHUNKS = new Set(["heading", "position", "line"]);

export async function showDocument(id, chunk, signal) {
  const { records, more } = await chunks(id, signal);
  if (!records.length) throw Object.assign(new Error(), { title: "There is no such document", detail: "It may have been removed, or belong to another tenant." });
  const names = await namesIn([id, ...records.map((record) => record.id)], signal);
  const [first] = records;
  const title = first.source.title || first.name || id;
  document.title = `${title} – Braid`;
  fill("stored",
    h("p", { class: "kind" }, "Document"),
    h("h2", { id: "stored-title", class: "title", dir: "auto", tabindex: -1 }, title),
    h("dl", { class: "facts" }, [...about(id, records, more)].map(([name, value]) => [h("dt", {}, name), h("dd", { dir: "auto" }, value)])),
    names.length ? h("section", {}, h("h3", {}, "Names in it"), h("ul", { class: "names" }, names.map((hit) => h("li", {}, link(to({ entity: hit.id }), hit.name))))) : null,
    h("section", {}, h("h3", {}, "What it says"), h("ol", { class: "chunks" }, records.map((record) => shownChunk(record, record.id === chunk, title)))),
    more ? h("p", { class: "quiet" }, `These are chunks of the first ${MOST} that are read here; there are more.`) : null);
  return chunk && [...document.querySelectorAll("[data-chunk]")].find((one) => one.dataset.chunk === chunk);
}

async function chunks(id, signal) {
  const records = [];
  let next = null;
  do {
    const after = next ? `&after=${encodeURIComponent(next)}` : "";
    const page = await get(`records?limit=${PAGE}&document=${encodeURIComponent(id)}${after}`, signal);
    records.push(...page.records);
    next = page.next;
  } while (next && records.length < MOST);
  const number = (record) => record.source.chunk_index ?? Number.parseInt(record.id.match(/(\d+)$/)?.[1] ?? "0", 10);
  return { records: records.sort((one, other) => number(one) - number(other)), more: Boolean(next) };
}

/** The named entities that its chunks mention, those that most of them mention first. */
async function namesIn(ids, signal) {
  const asked = { start: { ids: ids.slice(0, MOST_STARTS) }, steps: [{ direction: "both", types: ["MENTIONS"] }], returns: "paths", limit: 200 };
  const found = await post("graph/query", asked, signal);
  const times = new Map();
  for (const hit of found.hits) if (hit.name && hit.entity_type !== "Document") times.set(hit.id, { ...hit, times: (times.get(hit.id)?.times ?? 0) + 1 });
  return [...times.values()].sort((one, other) => other.times - one.times).slice(0, MOST_NAMES);
}

function* about(id, records, more) {
  const [first] = records;
  yield ["id", h("code", {}, id)];
  yield ["chunks", more ? `more than ${records.length}` : records.length.toLocaleString("en")];
  if (first.timestamp) yield ["date", day(first.timestamp)];
  if (first.updated_at) yield ["file changed", day(first.updated_at)];
  if (first.trusted === false) yield ["trusted", "no"];
  const said = Object.entries(first.metadata).filter(([name, value]) =>
    !OF_CHUNKS.has(name) && records.every((record) => String(record.metadata[name]) === String(value)));
  for (const [name, value] of said) yield [name, shortened(String(Array.isArray(value) ? value.join(", ") : value), 400)];
}

function shownChunk(record, chosen, title) {
  const { heading, line } = record.metadata;
  const { page } = record.source;
  const name = record.name && record.name !== title ? record.name : null;
  const place = [name, heading, page === null ? null : `page ${page}`, line ? `line ${line}` : null, record.invalid_at ? `held until ${day(record.invalid_at)}` : null];
  return h("li", { "data-chunk": record.id, class: chosen ? "chosen" : null, tabindex: chosen ? -1 : null },
    h("p", { class: "place", dir: "auto" }, place.filter(Boolean).join(" · ")),
    h("p", { class: "content", dir: "auto" }, record.content || (record.shortened ? "Too long to be shown here." : "")),
    h("p", { class: "cite" }, link(to({ entity: record.id }), record.id)));
}
