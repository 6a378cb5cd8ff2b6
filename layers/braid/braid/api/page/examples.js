// Questions to begin with: the demo's own where the demo is asked, else made of the names and facts that are stored.
import { shortened } from "./elements.js";
import { documentOf } from "./links.js";
import { questionOf } from "./relations.js";
import { related } from "./server.js";

const DEMO = {
  saltmarrow: [
    ["What was the root cause of the Lisbon label stoppage?", "Only the graph knows: no cause shares a word with it"],
    ["What does Wharfinger do?", "Plain words and vectors are enough"],
    ["How long does Fairlead keep messages?", "What holds today …"],
    ["How long does Fairlead keep messages?", "… and what held in January 2024", { as_of: "2024-01-10" }],
    ["What happened in the months after the Lisbon label stoppage?", "Walks forward in time"],
    ["Which function decides whether a tracking notification is sent?", "Code, found by what it does"],
  ],
  pellworth: [
    ["What caused the Beacon text storm?", "Another archive has a storm of the same name"],
    ["Why was there a citrus frost?", "Two steps back, to a cat"],
    ["From what amount is parking free?", "What holds today"],
    ["From what amount is parking free?", "What held in December 2024", { as_of: "2024-12-10" }],
  ],
};
const ABOUT = {
  __proto__: null, // a type may be called as what every object has
  Event: (name) => `What led to ${name}?`,
  Incident: (name) => `What led to ${name}?`,
  Person: (name) => `What did ${name} do?`,
  CodeEntity: (name) => `What does ${name} do?`,
};
const AT_MOST = 6;
const ASKED_ABOUT = 4; // names whose relations and mentions are read
const TITLE_AT_MOST = 80;

/**
 * Return pairs of question and note, and the controls that go with it: of facts that are stored, of what a document
 * says of a name in it, and of names and titles; none where nothing is stored.
 */
export async function examples(tenant, { entities }, documents) {
  if (Object.hasOwn(DEMO, tenant)) return DEMO[tenant];
  const chosen = differing(entities.filter((entity) => entity.relations));
  const near = await Promise.all(chosen.slice(0, ASKED_ABOUT).map(({ id }) => related(id, { limit: 50 })));
  const made = [
    ...near.flatMap(({ hits }, place) => ofFact(chosen[place], hits)),
    ...near.flatMap(({ hits }, place) => ofMention(chosen[place], hits, documents)),
    ...chosen.map((entity) => [(ABOUT[entity.entity_type] ?? ((name) => `What is ${name}?`))(entity.name), `A name: ${entity.entity_type}`]),
    ...documents.map(({ title }) => [`What does ${shortened(title, TITLE_AT_MOST)} say?`, "The title of a document"]),
  ];
  const first = new Map();
  for (const [text, note] of made) if (!first.has(text)) first.set(text, note);
  return [...first].slice(0, AT_MOST);
}

/** The question that the first of an entity's relationships answers. */
function ofFact(entity, hits) {
  const hit = hits.find(({ name, path }) => name && path.types[0] !== "MENTIONS");
  if (!hit) return [];
  const inward = hit.path.inward[0] ?? false;
  const [source, target] = inward ? [hit, entity] : [entity, hit];
  return [[questionOf(hit.path.types[0], source, target), "A fact of the graph"]];
}

/** What a listed document says of a name that it mentions, and is not itself. */
function ofMention(entity, hits, documents) {
  const ids = new Set(hits.filter(({ path }) => path.types[0] === "MENTIONS").map((hit) => documentOf(hit.id)));
  const found = documents.find(({ id, title }) => ids.has(id) && title !== entity.name);
  return found ? [[`What does ${shortened(found.title, TITLE_AT_MOST)} say about ${entity.name}?`, "A name in a document"]] : [];
}

/** Take one of each type in turn, so that not all examples are about the same kind of thing. */
function differing(entities) {
  const byType = new Map();
  for (const entity of entities) byType.set(entity.entity_type, [...(byType.get(entity.entity_type) ?? []), entity]);
  const taken = [];
  for (let place = 0; taken.length < AT_MOST && place < entities.length; place += 1) {
    for (const ofType of byType.values()) if (ofType[place] && taken.length < AT_MOST) taken.push(ofType[place]);
  }
  return taken;
}
