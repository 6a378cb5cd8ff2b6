// Questions to begin with: the demo's own where the demo is asked, else about what the tenant's graph holds.
import { get, post } from "./server.js";

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
const USUAL_TYPES = ["Event", "Incident", "Person", "Organization", "Service", "Project", "Document", "Concept"];
const ABOUT = {
  Event: (name) => `What led to ${name}?`,
  Incident: (name) => `What led to ${name}?`,
  Person: (name) => `What did ${name} do?`,
  Service: (name) => `What depends on ${name}?`,
  Document: (name) => `What does ${name} say?`,
  CodeEntity: (name) => `What does ${name} do?`,
};
const AT_MOST = 6;

/** Return pairs of question and note, and the controls that go with it; none where the store knows no names. */
export async function examples(tenant, signal) {
  if (Object.hasOwn(DEMO, tenant)) return DEMO[tenant];
  const known = await types(signal);
  const found = await post("graph/query", { start: { entity_types: known.slice(0, 32) }, limit: 200 }, signal);
  return differing(found.hits.filter((hit) => hit.name)).map((hit) => [
    (ABOUT[hit.entity_type] ?? ((name) => `What is ${name}?`))(hit.name),
    hit.entity_type,
  ]);
}

async function types(signal) {
  const { current, versions } = await get("schemas", signal);
  const newest = versions.find((version) => version.version === current);
  return newest?.entity_types.length ? newest.entity_types : USUAL_TYPES;
}

/** Take one of each type in turn, so that not all examples are about the same kind of thing. */
function differing(hits) {
  const byType = Map.groupBy ? Map.groupBy(hits, (hit) => hit.entity_type) : grouped(hits);
  const taken = [];
  for (let place = 0; taken.length < AT_MOST && place < hits.length; place += 1) {
    for (const ofType of byType.values()) if (ofType[place] && taken.length < AT_MOST) taken.push(ofType[place]);
  }
  return taken;
}

function grouped(hits) {
  const groups = new Map();
  for (const hit of hits) groups.set(hit.entity_type, [...(groups.get(hit.entity_type) ?? []), hit]);
  return groups;
}
