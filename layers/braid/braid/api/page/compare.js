// Answers the same question in one other way, and shows both lists side by side.
import { byId, day, fill, h, milliseconds, shortened } from "./elements.js";
import { linkOf } from "./links.js";
import { post } from "./server.js";

const OTHERWISE = {
  semantic: (asked) => ({ ...asked, hints: { strategy: "semantic" } }),
  graph_only: (asked) => ({ ...asked, hints: { strategy: "graph_only" } }),
  weighted: (asked) => ({ ...asked, fusion: "weighted" }),
  rrf: (asked) => ({ ...asked, fusion: "rrf" }),
  propagate: (asked) => ({ ...asked, fusion: "propagate" }),
  "no reranker": (asked) => ({ ...asked, reranker: "none" }),
  plan: ({ text, top_k, explain, filters, as_of }) => ({ text, top_k, explain, filters, as_of }),
};

/** Show the answer beside the one to the same question in the other way that the control names. */
export async function showBeside(answer, asked, signal) {
  const way = byId("compare").value;
  byId("beside").hidden = !way;
  if (!way) return;
  fill("beside-lists", h("p", { class: "quiet", role: "status" }, "Asking the other way …"));
  try {
    const other = await post("search", OTHERWISE[way](asked), signal);
    const said = byId("compare").selectedOptions[0].textContent;
    fill("beside-lists", list("As set above", answer, other), list(`Other way: ${said}`, other, answer));
  } catch (error) {
    if (error.name === "AbortError") return;
    fill("beside-lists", h("p", { role: "alert" }, h("strong", {}, `${error.title ?? "The other way cannot be shown"}. `), error.detail ?? ""));
  }
}

function list(title, answer, other) {
  const there = new Map(other.results.map((result) => [result.id, result.rank]));
  return h("section", {},
    h("h3", {}, title),
    h("p", { class: "quiet" }, `${answer.plan.strategy.replace("_", " ")}, ${answer.fusion} · confidence ${answer.confidence.toFixed(2)} · ${milliseconds(answer.latency_ms.total)}`),
    answer.results.length ? null : h("p", { class: "nothing" }, "Nothing was found."),
    h("ol", {}, answer.results.map((result) => h("li", { class: there.has(result.id) ? null : "alone" },
      h("span", { class: "rank", "aria-hidden": "true" }, `${result.rank}`),
      h("span", {}, linkOf(result, shortened(result.title || result.id, 90)),
        h("span", { class: "quiet" }, [result.citation.page === null ? "" : ` · page ${result.citation.page}`, result.timestamp ? ` · ${day(result.timestamp)}` : "", ` · ${result.final.toFixed(2)}`])),
      h("span", { class: "to" }, place(result, there.get(result.id)))))));
}

function place(result, rank) {
  if (rank === undefined) return "only here";
  return rank === result.rank ? "same" : `#${rank} there`;
}
