// When each stage ran and for how long.
import { fill, h, milliseconds, sized } from "./elements.js";

const STAGES = {
  plan: "plan",
  embed: "embed",
  vector_search: "search text",
  link: "find names",
  graph_expand: "walk the graph",
  fuse: "fuse and read",
  rerank: "rerank",
  cache: "read from the cache",
};
const SIDE_BY_SIDE = new Set(["hybrid", "vector_first"]);

/** Return stages with their beginnings, which follow from their order: names are found while text is searched. */
export function placed(answer) {
  const took = answer.latency_ms;
  const apart = SIDE_BY_SIDE.has(answer.plan.strategy) && "link" in took && "vector_search" in took;
  let now = 0;
  let linked = 0;
  const rows = [];
  for (const name of Object.keys(STAGES)) {
    if (!(name in took)) continue;
    if (apart && name === "link") {
      rows.push({ name, start: took.plan ?? 0, took: took.link });
      linked = (took.plan ?? 0) + took.link;
      continue;
    }
    if (name === "graph_expand" || name === "fuse") now = Math.max(now, linked);
    rows.push({ name, start: now, took: took[name] });
    now += took[name];
  }
  return { rows, end: now, total: took.total ?? now };
}

export function showTimings(answer) {
  const { rows, end, total } = placed(answer);
  const whole = Math.max(end, total, 0.001);
  fill("time",
    h("ol", { class: "waterfall" }, rows.map(({ name, start, took }) =>
      h("li", {},
        h("span", {}, STAGES[name]),
        h("span", { class: "track", "aria-hidden": "true" },
          sized(h("span", { class: "bar stage" }), {
            "margin-inline-start": `${(start / whole) * 100}%`,
            width: `max(2px, ${(took / whole) * 100}%)`,
          })),
        h("span", { class: "figure" }, milliseconds(took))))),
    h("p", { class: "quiet" },
      answer.cached
        ? `From the cache in ${milliseconds(total)}: an equal question had been answered. Ages are of this moment.`
        : `${milliseconds(total)} in all${total - end > 0.1 * total ? `, ${milliseconds(total - end)} of it between the stages` : ""}.`),
  );
}
