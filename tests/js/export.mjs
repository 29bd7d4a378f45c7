// Sends one batch by an exporter of OpenTelemetry's and prints how that went, as JSON.
//
//   node export.mjs PROTOCOL SIGNAL URL COMPRESSION
//
// PROTOCOL is grpc, proto or http (JSON), SIGNAL is trace, metrics or logs.

import { ROOT_CONTEXT, trace } from "@opentelemetry/api";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchLogRecordProcessor, LoggerProvider } from "@opentelemetry/sdk-logs";
import { MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider, BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";

const [protocol, signal, url, compression] = process.argv.slice(2);
const exporters = await import(`@opentelemetry/exporter-${signal}-otlp-${protocol}`);
const resource = resourceFromAttributes({ "service.name": "js-tests" });
const results = [];
const ids = [];

// The exporter proper, and what it answers, noted.
function noted(exporter) {
  const send = exporter.export.bind(exporter);
  exporter.export = (items, done) =>
    send(items, (result) => {
      results.push({ code: result.code, error: result.error?.message ?? null });
      done(result);
    });
  return exporter;
}

const options = { url, compression };

if (signal === "trace") {
  const processor = new BatchSpanProcessor(noted(new exporters.OTLPTraceExporter(options)));
  const provider = new BasicTracerProvider({ resource, spanProcessors: [processor] });
  const tracer = provider.getTracer("tests");
  const root = tracer.startSpan("invoke_agent refund", {
    attributes: { "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "refund", cut: "\u{1f600}".slice(0, 1) },
  });
  for (const tool of ["lookup_user", "check_balance"]) {
    const context = trace.setSpan(ROOT_CONTEXT, root);
    const attributes = { "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool };
    const span = tracer.startSpan(`execute_tool ${tool}`, { attributes: { ...attributes, nan: NaN, n: 7, list: ["a", "b"] } }, context);
    span.addEvent("called", { ok: true });
    span.end();
    ids.push(span.spanContext().spanId);
  }
  root.end();
  ids.push(root.spanContext().spanId);
  await provider.shutdown().catch(() => {}); // what failed is among the results
} else if (signal === "metrics") {
  const exporter = noted(new exporters.OTLPMetricExporter(options));
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 600_000 });
  const provider = new MeterProvider({ resource, readers: [reader] });
  const meter = provider.getMeter("tests");
  meter.createCounter("calls").add(3, { tool: "lookup_user" });
  meter.createHistogram("seconds").record(0.25);
  await provider.shutdown().catch(() => {}); // what failed is among the results
} else {
  const processor = new BatchLogRecordProcessor({ exporter: noted(new exporters.OTLPLogExporter(options)) });
  const provider = new LoggerProvider({ resource, processors: [processor] });
  provider.getLogger("tests").emit({ eventName: "gen_ai.choice", body: { role: "assistant", parts: [{ type: "text" }] } });
  await provider.shutdown().catch(() => {}); // what failed is among the results
}

console.log(JSON.stringify({ results, ids }));
