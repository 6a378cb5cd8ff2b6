// The token may stand in the address after "#token=", a part that a browser sends to no server.
const byId = (id) => document.getElementById(id);
byId("token").value = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";

byId("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  byId("results").replaceChildren();
  byId("said").textContent = "Asking";
  try {
    const response = await fetch("/search", {
      method: "POST",
      headers: { "Authorization": `Bearer ${byId("token").value}`, "Content-Type": "application/json" },
      body: JSON.stringify({ text: byId("text").value }),
    });
    const answer = await response.json();
    if (!response.ok) {
      byId("said").textContent = `${answer.title}: ${answer.detail}`;
      return;
    }
    const without = answer.degraded.length ? `, without ${answer.degraded.join(", ")}` : "";
    byId("said").textContent = `${answer.results.length} results in ${Math.round(answer.latency_ms.total)} ms${without}`;
    byId("results").replaceChildren(...answer.results.map(shown));
  } catch (error) {
    byId("said").textContent = `no answer: ${error.message}`;
  }
});

function shown(result) {
  const item = document.createElement("li");
  item.append(result.title);
  const excerpt = document.createElement("small");
  excerpt.textContent = `${result.final.toFixed(3)} ${result.citation.excerpt}`;
  item.append(excerpt);
  return item;
}
