// One entity and what stands in relation to it, shown below the graph of an answer.
import { byId, day, fill, h, plural, shortened } from "./elements.js";
import { addRelations } from "./graph.js";
import { link, pageOf } from "./links.js";
import { CAUSAL, walkedAs } from "./relations.js";
import { post, related } from "./server.js";

const AT_MOST = 60;
let asking = null;

/** Ask for an entity and its relations, as of the answer's moment, and show them below the graph. */
export async function openEntity(id, { asOf, onWithin }) {
  asking?.abort();
  asking = new AbortController();
  const box = byId("entity");
  box.hidden = false;
  fill("entity", h("p", { class: "quiet", role: "status" }, "Asking for its relations …"));
  try {
    const [entity, nearest, causes] = await Promise.all([
      post("./entities:read", { id }, asking.signal),
      related(id, { limit: AT_MOST, asOf }, asking.signal),
      related(id, { types: CAUSAL, limit: AT_MOST, asOf }, asking.signal),
    ]);
    const relations = together(causes, nearest);
    fill("entity", shown(entity, relations, { open: (other) => openEntity(other, { asOf, onWithin }), onWithin }));
    addRelations(id, relations.hits);
    box.scrollIntoView({ block: "nearest" });
  } catch (error) {
    if (error.name === "AbortError") return;
    fill("entity", h("p", { role: "alert" }, h("strong", {}, `${error.title ?? "Its relations cannot be shown"}. `), error.detail ?? ""));
  }
}

/** Of what is tied by several edges the server names the surest; what is a cause as well is to be seen as one. */
function together(causes, nearest) {
  const edge = (hit) => JSON.stringify([hit.id, hit.path.types[0], hit.path.inward[0]]);
  const known = new Set(causes.hits.map(edge));
  return { hits: [...causes.hits, ...nearest.hits.filter((hit) => !known.has(edge(hit)))], truncated: causes.truncated || nearest.truncated };
}

export function closeEntity() {
  asking?.abort();
  byId("entity").hidden = true;
  fill("entity");
}

function shown(entity, relations, { open, onWithin }) {
  const name = entity.name ?? entity.citation?.title ?? entity.id;
  const facts = [entity.entity_type ?? entity.kind, entity.timestamp && day(entity.timestamp), entity.invalid_at && `held until ${day(entity.invalid_at)}`];
  return [
    h("div", { class: "entity-head" },
      h("h3", { id: "entity-title", dir: "auto" }, name),
      h("button", { type: "button", class: "plain", on: { click: closeEntity } }, "Close")),
    h("p", { class: "kind" }, facts.filter(Boolean).join(" · "), " ", h("code", {}, entity.id)),
    entity.content ? h("p", { dir: "auto" }, shortened(entity.content, 420)) : null,
    h("p", { role: "status", class: "quiet" }, relations.hits.length
      ? `${plural(relations.hits.length, "relation")}${relations.truncated || relations.hits.length >= AT_MOST ? ", and more that are not shown" : ""}`
      : "Nothing is related to it."),
    h("div", { class: "relations" }, grouped(relations.hits).map(([label, hits]) => h("section", {},
      h("h4", {}, label),
      h("ul", {}, hits.map((hit) => h("li", {},
        h("button", { type: "button", class: "name", on: { click: () => open(hit.id) } }, h("bdi", {}, hit.name ?? hit.id)))))))),
    h("p", { class: "deeds" },
      h("button", { type: "button", on: { click: () => onWithin(entity.id) } }, "Ask only among what this reaches"),
      link(pageOf(entity.id, entity.kind), "Its page", { class: "button" })),
  ];
}

function grouped(hits) {
  const groups = new Map();
  for (const hit of hits) {
    const { words, turned } = walkedAs(hit.path.types[0] ?? "RELATED_TO", hit.path.inward[0] ?? false);
    const label = turned ? `← ${words}` : `${words} →`;
    groups.set(label, [...(groups.get(label) ?? []), hit]);
  }
  return [...groups.entries()]; // causes first, then as sure as they are
}
