// What was planned and why, what counted how much, and what was missing, in words.
import { STRANDS, apart, fill, h, plural, share, sized } from "./elements.js";

const INTENTS = {
  lookup: "Read as a look-up: one thing is sought.",
  exploratory: "Read as an open question: the graph is walked in every direction.",
  temporal: "Read as a question of time: the graph is walked along before, after and during.",
  causal: "Read as a question of causes: the graph is walked along what causes, enables and prevents.",
};
const FUSIONS = { weighted: "weighted sum", rrf: "reciprocal ranks", propagate: "propagation through the graph" };
const MISSING = {
  plan: "Planning was lost: everything was searched, without regard to the kind of question.",
  embed: "The question could not be embedded as planned: words and graph answer, or another model.",
  vector_search: "The search index did not answer: the graph answers alone.",
  space: "No record has a vector of this model: words and graph answer.",
  graph_expand: "The graph did not answer in full: vectors and words count for more.",
  link: "Names in the question could not be looked up in the graph.",
  facets: "The values of fields could not be counted.",
  rerank: "The reranker did not answer, or is not set up here: the fused order stands.",
  schema: "The schema registry did not answer: versions of schemas were not regarded.",
  text: "The texts could not be read after the search: results are shown without them.",
};

/** One or two sentences for whoever sees an answer for the first time. */
export function summary(answer) {
  const linked = answer.related_entities.filter((entity) => entity.linked);
  const named = linked.slice(0, 3).map((entity) => `“${apart(entity.name)}”`).join(", ");
  const byGraph = answer.results.filter((result) => !result.ranks.vector && !result.ranks.lexical).length;
  return [
    INTENTS[answer.plan.intent] ?? "",
    named ? `The question names ${named}.` : "",
    answer.results.length ? `${plural(answer.counts.fused, "candidate")} were found, ${answer.results.length} are shown` : "",
    answer.results.length ? (byGraph ? `; ${byGraph} of them the graph alone found.` : ".") : "",
  ].filter(Boolean).join(" ").replace(" ;", ";").replace(/ \.$/, ".");
}

export function showPlan(answer) {
  const { plan } = answer;
  const how = answer.fusion === plan.fusion ? FUSIONS[answer.fusion] : `${FUSIONS[answer.fusion]} (planned: ${FUSIONS[plan.fusion]})`;
  const facts = [["Strategy", plan.strategy.replace("_", " ")], ["Intent", plan.intent], ["Fusion", how], ["Model", plan.model_id ?? "the default"]];
  fill("plan",
    h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    plan.reasons.length ? h("ul", { class: "reasons" }, plan.reasons.map((reason) => h("li", {}, reason))) : null,
    plan.steps.length ? h("ol", { class: "reasons" }, plan.steps.map((step) => h("li", {}, stepped(step)))) : null,
  );
}

function stepped(step) {
  const along = step.types.length ? ` along ${step.types.join(", ")}` : "";
  const to = step.entity_types.length ? ` to ${step.entity_types.join(", ")}` : "";
  return step.operation === "search" ? `search${to}` : `walk ${step.direction}${along}${to}`;
}

/** How much each strand counted, and how much it found. */
export function showWeights(answer) {
  const { weights, counts } = answer;
  const parts = [["vector", weights.vector], ["lexical", weights.lexical], ["graph", weights.graph]];
  fill("weights",
    h("div", { class: "stack", "aria-hidden": "true" }, parts.map(([name, value]) =>
      sized(h("span", { class: `bar ${name}` }), { "flex-grow": String(value) }))),
    h("dl", { class: "facts" }, parts.map(([name, value]) => [
      h("dt", {}, h("span", { class: `dot ${name}`, "aria-hidden": "true" }), STRANDS[name]),
      h("dd", {}, `${share(value)}, found ${found(name, counts)}`),
    ])),
    answer.fusion === "propagate"
      ? h("p", { class: "quiet" }, "Propagation lets relevance flow from what text and names found; the weights order what it did not reach.")
      : null,
  );
}

const found = (name, counts) =>
  name === "graph" ? `${counts.graph} and ${plural(counts.knowledge, "name")}` : `${counts[name] ?? 0}`;

/** As in braid.models. */
const LIKELY = 0.6, UNLIKELY = 0.3;

const inWords = (confidence) =>
  confidence >= LIKELY ? "Likely answered" : confidence >= UNLIKELY ? "Unsure whether these answer it" : "Probably not answered";

const ASKED = { all: "a whole list", count: "a number", not: "what does not stand in a relation" };

/** What the answer lacks, and what whoever reads it should know. */
export function notices(answer) {
  const known = answer.degraded.map((part) => MISSING[part] ?? `Missing: ${part}.`);
  const notes = [];
  if (answer.superseded) notes.push(`${plural(answer.superseded, "record")} left out that no longer held.`);
  if (answer.truncated) notes.push("The graph's part was cut short: more may be reachable.");
  if (answer.unknown_entity) notes.push(`The graph knows no entity “${apart(answer.unknown_entity)}”, so nothing is reached from it.`);
  for (const { misspelt, name } of answer.related_entities) if (misspelt) notes.push(`“${apart(misspelt)}” was read as ${apart(name)}.`);
  if (answer.set_not_answered) notes.push(`The question asks for ${ASKED[answer.set_not_answered]}, which the graph did not answer.`);
  for (const field of answer.plan.unknown_fields) notes.push(`No record has the field “${apart(field)}” in its metadata.`);
  const told = answer.results.length ? `${inWords(answer.confidence)} (${answer.confidence.toFixed(2)} of 1).` : "";
  return [
    told && answer.confidence < LIKELY
      ? h("div", { class: "notice" }, h("strong", {}, told), " The answer may not be stored.")
      : told ? h("p", { class: "quiet" }, told) : null,
    known.length
      ? h("div", { class: "notice degraded" }, h("strong", {}, "Degraded: this answer is less than it could be."),
        h("ul", {}, known.map((text) => h("li", {}, text))))
      : null,
    notes.length ? h("p", { class: "quiet" }, notes.join(" ")) : null,
  ];
}
