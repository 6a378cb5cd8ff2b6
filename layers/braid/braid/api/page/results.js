// The ranked answer with its evidence.
import { STRANDS, day, fill, h, s, shortened, sized } from "./elements.js";
import { grade, gradesOf } from "./kept.js";
import { link, linkOf, pageOf, to } from "./links.js";
import { said, telling } from "./marks.js";
import { walkedAs } from "./relations.js";

const KINDS = { chunk: "passage", tool_call: "tool call" };
const TITLE_AT_MOST = 160;

/** Show the results; `before` holds the ranks of the answer shown last to the same question, by id. */
export function showResults(answer, asked, before, { onEntity, onPoint }) {
  const wanted = telling(asked.text);
  fill("results", answer.results.map((result) => item(result, asked, wanted, before, { onEntity, onPoint })));
}

function item(result, asked, wanted, before, { onEntity, onPoint }) {
  const ids = [result.id, ...result.paths.flatMap((path) => path.ids)];
  return h(
    "li",
    { class: "result", on: { pointerenter: () => onPoint(ids), pointerleave: () => onPoint(null) } },
    h("h3", {},
      h("span", { class: "rank", "aria-hidden": "true" }, `${result.rank}`),
      h("span", { dir: "auto", title: result.title.length > TITLE_AT_MOST ? result.title : null }, linkOf(result, shortened(result.title || result.id, TITLE_AT_MOST))),
      movement(result, before),
    ),
    h("p", { class: "kind" }, [result.entity_type ?? KINDS[result.kind] ?? result.kind, dated(result), `score ${result.final.toFixed(2)}`].filter(Boolean).join(" · ")),
    result.facts ? stated(result.facts) : result.citation.excerpt ? h("p", { class: "excerpt", dir: "auto" }, said(result.citation.excerpt, result.citation.marked, wanted)) : h("p", { class: "quiet" }, "without text"),
    result.facts ? null : result.paths.slice(0, 1).map((path) => h("p", { class: "path" }, walked(path, onEntity))),
    h("p", { class: "chips" }, result.sources.map((source) =>
      h("span", { class: `chip ${source}`, title: `number ${result.ranks[source]} of what ${STRANDS[source]} found` }, `${STRANDS[source]} #${result.ranks[source]}`)),
      result.needs_transformation ? h("span", { class: "chip warn" }, "older schema") : null,
    ),
    result.facts ? null : h("p", { class: "cite" }, cited(result)),
    result.copies ? h("p", { class: "cite" }, "the same text", result.copies.map((id) => h("code", {}, link(pageOf(id, "chunk"), id)))) : null,
    h("div", { class: "below" }, more(result, wanted, onEntity), result.facts ? null : judging(result, asked)),
  );
}

const THUMB = "M2 11h4v9H2zM8 11l4-8c2 0 3 1 3 3l-1 4h5.5c1.5 0 2.3 1 2 2.3l-1.6 6.2c-.2.9-1 1.5-2 1.5H8z";

/** Two buttons that say whether a result answers the question; pressed again they say nothing. */
function judging(result, asked) {
  const name = result.title || result.id;
  const button = (value, words) => h("button", { type: "button", class: "thumb", title: words, "aria-label": `${words}: ${name}`, "aria-pressed": String(gradesOf(asked)[result.id] === value), on: { click: () => {
    const before = gradesOf(asked)[result.id];
    grade(asked, result.id, before === value ? null : value);
    for (const [one, of] of [[up, 1], [down, 0]]) one.setAttribute("aria-pressed", String(gradesOf(asked)[result.id] === of));
  } } }, s("svg", { viewBox: "0 0 24 24", width: 18, height: 18, "aria-hidden": "true", class: value ? null : "down" }, s("path", { d: THUMB })));
  const up = button(1, "This answers the question");
  const down = button(0, "This does not answer it");
  return h("p", { class: "thumbs" }, up, down);
}

function movement(result, before) {
  if (!before) return null;
  const was = before.get(result.id);
  if (was === undefined) return h("span", { class: "moved up" }, "new");
  if (was === result.rank) return null;
  const places = Math.abs(was - result.rank);
  const up = result.rank < was;
  return h("span", { class: `moved ${up ? "up" : "down"}` }, h("span", { class: "unseen" }, up ? "up" : "down"), `${up ? "▲" : "▼"} ${places}`);
}

function dated(result) {
  if (result.invalid_at) return `held until ${day(result.invalid_at)}`;
  if (result.valid_at) return `holds since ${day(result.valid_at)}`;
  return result.timestamp ? day(result.timestamp) : "";
}

/** The facts of an answer, each with when it holds and the record that it is known from. */
function stated({ facts, count, complete }) {
  const shown = new Set(facts.map((fact) => fact.answer)).size;
  return h("ul", { class: "statements" }, facts.map((fact) => h("li", { dir: "auto" }, fact.text,
    h("span", { class: "quiet" }, [
      " · ", link(to({ entity: fact.answer }), fact.name),
      fact.path.valid_at ? ` · since ${day(fact.path.valid_at)}` : "",
      fact.path.invalid_at ? ` · until ${day(fact.path.invalid_at)}` : "",
      fact.citation ? [" · from ", from(fact), fact.citation.page === null ? "" : `, page ${fact.citation.page}`] : "",
    ]))),
    shown < count || !complete ? h("li", { class: "quiet" }, `${complete ? "" : "at least "}${count} in all`) : null);
}

function from(fact) {
  const title = shortened(fact.citation.title, TITLE_AT_MOST);
  const known = fact.path.evidence.find(Boolean);
  return known ? link(pageOf(known, "chunk"), title) : h("bdi", {}, title);
}

function cited(result) {
  const { type, title, page } = result.citation;
  const place = page === null ? "" : `, page ${page}`;
  return [`${type.replace("_", " ")}: `, h("bdi", {}, shortened(title, TITLE_AT_MOST)), place, h("code", {}, result.id)];
}

/** A walk in one line; each name on it asks for that entity's relations. */
export function walked(path, onEntity) {
  const name = (place) =>
    h("button", { type: "button", class: "name", on: { click: () => onEntity(path.ids[place]) } },
      h("bdi", {}, shortened(path.names[place] ?? path.ids[place], TITLE_AT_MOST)));
  return path.types.flatMap((type, place) => {
    const { words, turned } = walkedAs(type, path.inward[place] ?? false);
    const known = path.evidence[place];
    return [
      place === 0 ? name(0) : null,
      h("span", { class: "step" }, h("span", { class: "edge", title: known ? `known from ${known}` : null },
        h("span", { "aria-hidden": "true" }, turned ? " ← " : " "), words,
        h("span", { class: "unseen" }, turned ? " (from the next) " : " "),
        h("span", { "aria-hidden": "true" }, turned ? " " : " → ")),
      name(place + 1)),
    ];
  });
}

function more(result, wanted, onEntity) {
  const scores = [
    ["vectors", result.vector_score, "vector"],
    ["words", result.lexical_score, "lexical"],
    ["graph", result.graph_score, "graph"],
    ["combined", result.combined_score, "total"],
    ["reranked", result.rerank_score, "total"],
    ["final", result.final, "total"],
  ].filter(([, value]) => value !== null);
  return h("details", { class: "more" }, h("summary", {}, "Why it is here", h("span", { class: "unseen" }, `: ${result.title || result.id}`)),
    h("div", { class: "bars" }, scores.map(([name, value, kind]) => [
      h("span", {}, name),
      h("span", { class: "track", "aria-hidden": "true" }, sized(h("span", { class: `bar ${kind}` }), { width: `${value * 100}%` })),
      h("span", { class: "figure" }, value.toFixed(3)),
    ])),
    result.reasons.length ? h("ul", { class: "reasons" }, result.reasons.map((reason) => h("li", {}, reason))) : null,
    result.paths.length > 1 ? h("div", {}, result.paths.slice(1).map((path) => h("p", { class: "path" }, walked(path, onEntity)))) : null,
    !result.facts && result.content && result.content !== result.citation.excerpt ? h("div", { class: "whole", dir: "auto", role: "region", "aria-label": "The whole text", tabindex: 0 }, said(result.content, result.marked, wanted)) : null,
    result.facts ? null : h("button", { type: "button", class: "plain", on: { click: () => onEntity(result.id) } }, "Its relations"),
  );
}
