"""Gremlin Server over TinkerGraph, configured to behave like Neptune."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from braid_cli.local_servers import java, maven
from braid_cli.local_servers.process import Launch, free_port

if TYPE_CHECKING:
    from pathlib import Path

# Neptune's newest engines speak TinkerPop 3.7, and so does the client that the layer pins.
VERSION = "3.7.3"
ARTIFACTS = (
    maven.Artifact("org.apache.tinkerpop", "gremlin-server", VERSION),
    maven.Artifact("org.apache.tinkerpop", "tinkergraph-gremlin", VERSION),
    maven.Artifact("org.slf4j", "slf4j-simple", "1.7.25"),
)
HEAP_VARIABLE, HEAP = "BRAID_GREMLIN_HEAP", "1g"
"""Java heap. The graph is in memory: 100,000 vertices with as many edges take half of it."""
INDEX_VARIABLE = "BRAID_GREMLIN_INDEX"
"""Set for an index of names and evidence."""
MINIMUM_JAVA = 11
MAXIMUM_JAVA = 21

# One traversal at a time: concurrent writes to a vertex corrupt TinkerGraph's property lists.
_SERVER = """\
host: 127.0.0.1
port: {port}
evaluationTimeout: 30000
threadPoolWorker: 1
gremlinPool: 1
maxContentLength: 10485760
channelizer: org.apache.tinkerpop.gremlin.server.channel.WebSocketChannelizer
graphs: {{graph: graph.properties}}
scriptEngines:
  gremlin-groovy:
    plugins:
      org.apache.tinkerpop.gremlin.server.jsr223.GremlinServerGremlinPlugin: {{}}
      org.apache.tinkerpop.gremlin.tinkergraph.jsr223.TinkerGraphGremlinPlugin: {{}}
      org.apache.tinkerpop.gremlin.jsr223.ScriptFileGremlinPlugin: {{files: [init.groovy]}}
serializers:
  - {{className: org.apache.tinkerpop.gremlin.util.ser.GraphBinaryMessageSerializerV1}}
  - {{className: org.apache.tinkerpop.gremlin.util.ser.GraphSONMessageSerializerV3}}
"""
# As in Neptune, ids are strings, and the default cardinality is ``set``: tests notice a write without ``single``.
_GRAPH = """\
gremlin.graph=org.apache.tinkerpop.gremlin.tinkergraph.structure.TinkerGraph
gremlin.tinkergraph.vertexIdManager=ANY
gremlin.tinkergraph.edgeIdManager=ANY
gremlin.tinkergraph.vertexPropertyIdManager=LONG
gremlin.tinkergraph.defaultVertexPropertyCardinality=set
"""
_INIT = """\
def globals = [:]
globals << [g : traversal().withEmbedded(graph)]
"""
# Neptune has an index of every property. TinkerGraph uses its own for single values alone, and would read every vertex
# for each list of names. ``testAll`` decides still, so that an index changes no result. It is for measurements: it
# looks for a removed vertex under every value, so that emptying a graph takes quadratic time.
_INDEXED_INIT = """\
import java.util.function.Supplier
import org.apache.tinkerpop.gremlin.process.traversal.Contains
import org.apache.tinkerpop.gremlin.process.traversal.TraversalStrategy.ProviderOptimizationStrategy
import org.apache.tinkerpop.gremlin.process.traversal.step.util.HasContainer
import org.apache.tinkerpop.gremlin.process.traversal.strategy.AbstractTraversalStrategy
import org.apache.tinkerpop.gremlin.process.traversal.util.TraversalHelper
import org.apache.tinkerpop.gremlin.tinkergraph.process.traversal.step.sideEffect.TinkerGraphStep
import org.apache.tinkerpop.gremlin.tinkergraph.process.traversal.strategy.optimization.TinkerGraphStepStrategy
import org.apache.tinkerpop.gremlin.tinkergraph.structure.TinkerIndexHelper

["link_name", "link_key"].each { graph.createIndex(it, Vertex) }
graph.createIndex("evidence", Edge)

class ListsByIndex extends AbstractTraversalStrategy<ProviderOptimizationStrategy>
        implements ProviderOptimizationStrategy {
    void apply(Traversal.Admin traversal) {
        def graph = traversal.graph.orElse(null)
        TraversalHelper.getStepsOfClass(TinkerGraphStep, traversal).findAll { !it.ids }.each { step ->
            def all = step.hasContainers
            def indexed = graph.getIndexedKeys(step.returnsVertex() ? Vertex : Edge)
            def listed = all.find { it.biPredicate == Contains.within && it.key in indexed }
            def of = step.returnsVertex() ? TinkerIndexHelper.&queryVertexIndex : TinkerIndexHelper.&queryEdgeIndex
            if (listed) step.setIteratorSupplier({
                def found = listed.value.collectMany { of(graph, listed.key, it) }.unique { it.id() }
                found.findAll { HasContainer.testAll(it, all) }.iterator()
            } as Supplier)
        }
    }
    Set applyPrior() { [TinkerGraphStepStrategy] as Set }
}

def globals = [:]
globals << [g : traversal().withEmbedded(graph).withStrategies(new ListsByIndex())]
"""


def prepare(folder: Path) -> Launch:
    """Write a configuration into an empty folder and return how to start the server.

    Raises ConfigurationError if there is no Java 11 to 21, or the packages cannot be fetched.
    """
    home = java.find(
        "Gremlin Server", minimum=MINIMUM_JAVA, maximum=MAXIMUM_JAVA, variables=("GREMLIN_JAVA_HOME", "JAVA_HOME")
    )
    packages = maven.fetch("gremlin-server", ARTIFACTS, transitive=True)
    port = free_port()
    (folder / "server.yaml").write_text(_SERVER.format(port=port), encoding="utf-8")
    (folder / "graph.properties").write_text(_GRAPH, encoding="utf-8")
    init = _INDEXED_INIT if os.environ.get(INDEX_VARIABLE) else _INIT
    (folder / "init.groovy").write_text(init, encoding="utf-8")
    endpoint = f"ws://127.0.0.1:{port}/gremlin"
    return Launch(
        command=(
            str(home / "bin" / "java"),
            "-Xms256m",
            f"-Xmx{os.environ.get(HEAP_VARIABLE, HEAP)}",
            # A batch of writes is one traversal of a thousand nested steps, which overflows the default stack.
            "-Xss4m",
            f"-Dbraid.folder={folder}",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.log.org.apache.tinkerpop.gremlin.server=info",
            "-cp",
            os.pathsep.join(str(jar) for jar in sorted(packages.glob("*.jar"))),
            "org.apache.tinkerpop.gremlin.server.GremlinServer",
            str(folder / "server.yaml"),
        ),
        endpoint=endpoint,
        ready=lambda: answers(endpoint),
        start_timeout_s=60,
    )


def answers(endpoint: str) -> bool:
    """Return whether a server at the endpoint runs a traversal."""
    from braid.engines.neptune.connection import GremlinConnection
    from braid.errors import StoreError

    connection = GremlinConnection(
        endpoint, connect_timeout_s=2, read_timeout_s=4, evaluation_timeout_ms=2_000, attempts=1
    )
    try:
        return connection.submit(lambda g: g.inject(1)) == [1]
    except StoreError:
        return False
    finally:
        connection.close()
