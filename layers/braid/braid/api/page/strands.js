// What each strand found, and how fusion and reranking moved it.
import { STRANDS, fill, h, shortened } from "./elements.js";

const FIRST = 5;
const TITLE_AT_MOST = 90;

/** Show the first of each strand and where they ended up. */
export function showStrands(answer) {
  const all = everything(answer);
  fill("strands", Object.entries(STRANDS).map(([source, name]) => {
    const found = all.filter((one) => one.ranks[source] !== undefined && one.ranks[source] <= FIRST)
      .sort((one, other) => one.ranks[source] - other.ranks[source] || one.rank - other.rank);
    return h("section", { class: `strand ${source}` },
      h("h3", {}, name, " ", h("span", { class: "quiet" }, `${answer.counts[source] ?? 0} found`)),
      found.length
        ? h("ol", {}, found.slice(0, FIRST).map((one) => h("li", { class: one.shown ? null : "behind" },
          h("span", { class: "rank" }, `${one.ranks[source]}`),
          h("span", {}, titled(one)),
          h("span", { class: "to" }, h("span", { "aria-hidden": "true" }, "→ "), h("span", { class: "unseen" }, "in the answer "), `${one.rank}`))))
        : h("p", { class: "quiet" }, answer.counts[source] ? "none that may be an answer" : "nothing"));
  }));
}

/** Show the ranks of every result by strand, after fusion and in the end. */
export function showOrder(answer) {
  const all = everything(answer);
  const head = ["Result", ...Object.values(STRANDS), "fused", "final", "moved"];
  fill("order", h("table", {},
    h("caption", { class: "unseen" }, "Ranks in each strand, after fusion, and in the answer"),
    h("thead", {}, h("tr", {}, head.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, all.filter((one) => one.shown).map(row)),
    all.some((one) => !one.shown)
      ? h("tbody", { class: "behind" }, h("tr", {}, h("th", { scope: "rowgroup", colspan: head.length }, "First in a strand, and not among the results")),
        all.filter((one) => !one.shown).map(row))
      : null));
}

function row(one) {
  const moved = one.fused_rank - one.rank;
  return h("tr", {},
    h("th", { scope: "row" }, titled(one)),
    Object.keys(STRANDS).map((source) => {
      const rank = one.ranks[source];
      return h("td", {}, rank === undefined
        ? h("span", { class: "quiet" }, "–")
        : h("span", { class: `spot ${source}${rank <= FIRST ? " first" : ""}` }, `${rank}`));
    }),
    h("td", {}, `${one.fused_rank}`),
    h("td", {}, h("strong", {}, `${one.rank}`)),
    h("td", { class: moved > 0 ? "moved up" : moved < 0 ? "moved down" : "quiet" },
      moved === 0 ? "as fused" : h("span", { class: "unseen" }, moved > 0 ? "up " : "down "), moved === 0 ? null : `${moved > 0 ? "▲" : "▼"} ${Math.abs(moved)}`));
}

const titled = (one) => h("bdi", {}, shortened(one.title || one.id, TITLE_AT_MOST));

function everything(answer) {
  return [
    ...answer.results.map((result) => ({ ...result, shown: true })),
    ...answer.considered.map((one) => ({ ...one, shown: false })),
  ];
}
