// The page of one entity: its names, what is known of it with the evidence, and the texts that mention it.
import { day, fill, h, plural, shortened } from "./elements.js";
import { documentOf, link, pageOf, to } from "./links.js";
import { CAUSAL, walkedAs } from "./relations.js";
import { get, post, related } from "./server.js";

const MOST = 100;
const TEXTS = 20; // that one request reads
const MENTIONS = "MENTIONS";
const AROUND = 140;

/** Show it; `onWithin` asks only among what it reaches. */
export async function showEntity(id, { onWithin, onAsk }, signal) {
  const [entity, stats] = await Promise.all([post("./entities:read", { id }, signal), get("stats", signal)]);
  const [causal, others] = [true, false].map((is) =>
    Object.keys(stats.by_relationship_type).filter((type) => type !== MENTIONS && CAUSAL.includes(type) === is).slice(0, 32));
  const along = (types) => (types.length ? related(id, { types, limit: MOST }, signal) : { hits: [] });
  // Of several relationships with one entity the server names the surest; a cause is to be seen beside what came before.
  const [causes, rest, mentions] = await Promise.all([along(causal), along(others), along([MENTIONS])]);
  const facts = { hits: [...causes.hits, ...rest.hits], truncated: causes.truncated || rest.truncated };
  const known = new Set([...facts.hits.map((hit) => hit.path.evidence[0]), ...mentions.hits.slice(0, TEXTS).map((hit) => hit.id)].filter(Boolean));
  const texts = await read([...known], signal);
  const name = entity.name ?? entity.citation?.title ?? entity.id;
  document.title = `${name} – Braid`;
  fill("stored",
    h("p", { class: "kind" }, kind(entity)),
    h("h2", { id: "stored-title", class: "title", dir: "auto", tabindex: -1 }, name),
    h("dl", { class: "facts" }, [...about(entity)].map(([term, value]) => [h("dt", {}, term), h("dd", { dir: "auto" }, value)])),
    entity.content ? h("p", { class: "content", dir: "auto" }, entity.content) : null,
    h("p", { class: "deeds" },
      h("button", { type: "button", on: { click: () => onAsk(`What is ${name}?`) } }, "Ask about it"),
      h("button", { type: "button", on: { click: () => onWithin(id) } }, "Ask only among what this reaches")),
    h("section", {}, h("h3", {}, "What is known of it"), knownOf(facts, texts)),
    h("section", {}, h("h3", {}, entity.kind === "chunk" ? "What it mentions" : "Texts that mention it"), mentioned(mentions, texts, [name, ...entity.aliases])));
}

const kind = (entity) => [entity.entity_type ?? entity.kind, entity.found ? "found in the texts" : entity.kind === "chunk" ? "" : "given"].filter(Boolean).join(" · ");

function* about(entity) {
  yield ["id", h("code", {}, entity.id)];
  if (entity.aliases.length) yield ["also called", entity.aliases.join(", ")];
  if (entity.kind === "chunk") yield ["document", link(to({ document: documentOf(entity.id), chunk: entity.id }), documentOf(entity.id))];
  if (entity.timestamp) yield ["date", day(entity.timestamp)];
  if (entity.valid_at) yield ["holds since", day(entity.valid_at)];
  if (entity.invalid_at) yield ["held until", day(entity.invalid_at)];
  if (entity.trusted === false) yield ["trusted", "no"];
  for (const [name, value] of Object.entries(entity.metadata)) yield [name, shortened(String(Array.isArray(value) ? value.join(", ") : value), 400)];
}

/** Records by their ids; those that are gone, or not to be had, are missing. */
async function read(ids, signal) {
  const pages = [];
  for (let start = 0; start < ids.length; start += TEXTS) pages.push(ids.slice(start, start + TEXTS));
  const answers = await Promise.all(pages.map((page) => post("./records:read", { ids: page }, signal)));
  return new Map(answers.flatMap((answer) => answer.records).map((record) => [record.id, record]));
}

function knownOf({ hits, truncated }, texts) {
  if (!hits.length) return h("p", { class: "quiet" }, "No relationship of it is stored, apart from mentions.");
  return [
    h("ul", { class: "known" }, hits.map((hit) => {
      const { words, turned } = walkedAs(hit.path.types[0] ?? "RELATED_TO", hit.path.inward[0] ?? false);
      const evidence = texts.get(hit.path.evidence[0]);
      return h("li", {},
        h("span", { class: "edge" }, turned ? `← ${words} ` : `${words} → `),
        link(to({ entity: hit.id }), hit.name ?? hit.id),
        h("span", { class: "quiet" }, hit.path.invalid_at ? ` · until ${day(hit.path.invalid_at)}` : "",
          evidence ? [" · known from ", link(pageOf(evidence.id, evidence.kind), title(evidence))] : ""));
    })),
    more(hits, truncated),
  ];
}

function mentioned({ hits, truncated }, texts, names) {
  if (!hits.length) return h("p", { class: "quiet" }, "None.");
  return [
    h("ul", { class: "mentions" }, hits.map((hit) => {
      const record = texts.get(hit.id);
      return h("li", {},
        link(record ? pageOf(record.id, record.kind) : to({ entity: hit.id }), record ? title(record) : hit.name ?? hit.id),
        record ? h("span", { class: "quiet" }, [record.metadata.heading, record.source.page === null ? null : `page ${record.source.page}`].filter(Boolean).map((one) => ` · ${one}`)) : null,
        record ? h("p", { class: "content", dir: "auto" }, around(record.content, names)) : null);
    })),
    more(hits, truncated),
  ];
}

const more = (hits, truncated) =>
  truncated || hits.length >= MOST ? h("p", { class: "quiet" }, `Shown are ${plural(hits.length, "of them", "of them")}; there are more.`) : null;

const title = (record) => shortened(record.name || record.source.title || record.id, 120);

/** The part of a text around the first of some names that it has, which is marked. */
function around(text, names) {
  const small = text.toLowerCase();
  const found = names.map((name) => [small.indexOf(name.toLowerCase()), name.length]).filter(([at]) => at >= 0).sort(([one], [other]) => one - other)[0];
  if (!found || small.length !== text.length) return shortened(text, 2 * AROUND);
  const [at, length] = found;
  const start = at > AROUND ? text.lastIndexOf(" ", at - AROUND / 2) + 1 : 0;
  const end = at + length + AROUND;
  return [start ? "… " : "", text.slice(start, at), h("mark", {}, text.slice(at, at + length)), text.slice(at + length, end), end < text.length ? " …" : ""];
}
