#include "telemetry/live_page.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "control/admin/answer_fields.h"
#include "telemetry/log.h"
#include "telemetry/page_assets.h"

namespace cw::telemetry {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kText = "text/plain; charset=utf-8";
constexpr std::string_view kJsonType = "application/json";

std::optional<uint64_t> to_number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

HttpReply refusal(const HttpRequest& request, HttpStatus status, std::string_view text) {
  return http_answer({.status = status, .content_type = kText, .body = text}, request.head_only);
}

HttpReply json_answer(const HttpRequest& request, std::string_view json) {
  return http_answer({.content_type = kJsonType, .body = json}, request.head_only);
}

HttpReply file_answer(const HttpRequest& request, const PageAsset& asset) {
  // A list of several is never sent by those who have this one.
  const bool known = request.if_none_match == asset.etag;
  return http_answer({.status = known ? HttpStatus::kNotModified : HttpStatus::kOk,
                      .content_type = asset.content_type,
                      .body = asset.gzip,
                      .etag = asset.etag,
                      .gzip = true},
                     request.head_only);
}

const PageAsset* find_asset(std::string_view path) {
  const std::span<const PageAsset> assets = page_assets();
  const auto found = std::ranges::find(assets, path, &PageAsset::path);
  return found == assets.end() ? nullptr : &*found;
}

// JSON has to stay UTF-8, whatever a log line quotes.
std::string to_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A row as the admin socket answers it, with rates per second; null: not known yet.
Json to_json(const LiveConnection& connection) {
  Json json = control::to_row(connection.status);
  const std::optional<ConnectionRates>& rates = connection.rates;
  json["rpcs_per_s"] = rates ? Json(rates->rpcs_per_s) : Json();
  json["bytes_in_per_s"] = rates ? Json(rates->bytes_in_per_s) : Json();
  json["bytes_out_per_s"] = rates ? Json(rates->bytes_out_per_s) : Json();
  json["retransmits_per_s"] = rates ? Json(rates->retransmits_per_s) : Json();
  return json;
}

Json or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

const char* level_name(control::LogLevel level) {
  constexpr std::array kNames = {"trace", "debug", "info", "warning", "error"};
  return kNames[static_cast<size_t>(level)];
}

}  // namespace

std::string index_text(std::string_view about_page) {
  return fmt::format(
      "Causeway gateway.\n\n"
      "/metrics  Prometheus metrics\n"
      "/healthz  200 while the poll cores turn\n"
      "/readyz   200 while clients can be served\n\n"
      "Live page: {}\n",
      about_page);
}

LivePage::LivePage(const Collector& collector, const History& history, control::GatewayView& view)
    : collector_(collector), history_(history), view_(view) {}

HttpReply LivePage::answer(const HttpRequest& request) {
  switch (request.page) {
    case HttpPage::kAsset:
      return answer_asset(request);
    case HttpPage::kSnapshot:
      return answer_snapshot(request);
    case HttpPage::kHistory:
      return answer_history(request);
    default:
      return answer_index(request);
  }
}

HttpReply LivePage::answer_index(const HttpRequest& request) const {
  const PageAsset* page = find_asset("/");
  if (page != nullptr && request.accepts_gzip) {
    return file_answer(request, *page);
  }
  const std::string text =
      index_text(page != nullptr ? "open this address in a browser. Its data: /api/snapshot, /api/history"
                                 : "not built in. It takes npm when the program is built, see meson's option live_page. "
                                   "Its data are here: /api/snapshot, /api/history");
  return http_answer({.content_type = kText, .body = text}, request.head_only);
}

HttpReply LivePage::answer_asset(const HttpRequest& request) const {
  const PageAsset* asset = find_asset(request.path);
  if (asset == nullptr) {
    return refusal(request, HttpStatus::kNotFound, "The page is at /\n");
  }
  if (!request.accepts_gzip) {
    return refusal(request, HttpStatus::kNotAcceptable, "This is kept compressed: ask with Accept-Encoding: gzip\n");
  }
  return file_answer(request, *asset);
}

HttpReply LivePage::answer_snapshot(const HttpRequest& request) {
  const std::optional<SnapshotQuery> query = snapshot_query(request.query);
  if (!query) {
    return refusal(request, HttpStatus::kBadRequest,
                   "/api/snapshot takes limit=1..500, "
                   "sort=rpcs|bytes|retransmits|in_flight|credits|round_trip|age|peer|listener|lcore and reversed\n");
  }
  look();
  return json_answer(request, snapshot_json(*query));
}

HttpReply LivePage::answer_history(const HttpRequest& request) const {
  const std::optional<uint64_t> since = to_number(http_query_value(request.query, "since").value_or("0"));
  if (!since) {
    return refusal(request, HttpStatus::kBadRequest, "/api/history takes since=NUMBER, the \"next\" of the last answer\n");
  }
  return json_answer(request, history_.to_json(*since));
}

std::optional<LivePage::SnapshotQuery> LivePage::snapshot_query(std::string_view query) {
  SnapshotQuery result;
  if (const auto text = http_query_value(query, "limit")) {
    const std::optional<uint64_t> limit = to_number(*text);
    if (!limit || *limit == 0 || *limit > kLimitMax) {
      return std::nullopt;
    }
    result.limit = static_cast<uint32_t>(*limit);
  }
  if (const auto text = http_query_value(query, "sort")) {
    const std::optional<ConnectionOrder> order = connection_order_of(*text);
    if (!order) {
      return std::nullopt;
    }
    result.order = *order;
  }
  result.reversed = http_query_value(query, "reversed").has_value();
  return result;
}

void LivePage::look() {
  const Clock::time_point now = Clock::now();
  if (!looked_at_ || now - *looked_at_ >= kLookTime) {
    looked_at_ = now;
    health_ = collector_.health();
    // A core that hangs would keep each question waiting, and with it the probes, which are answered on this thread too.
    if (health_.live) {
      connections_.update(Instant::from_ns(now.time_since_epoch().count()), view_.connections(), view_.activity());
      policy_ = view_.policy();
    }
  }
  if (!health_.live) {
    return;
  }
  if (!status_at_ || now - *status_at_ >= kStatusTime) {
    status_at_ = now;
    status_ = view_.status();
  }
}

std::string LivePage::snapshot_json(const SnapshotQuery& query) const {
  const MetricSources& sources = collector_.sources();
  Json json;
  json["boot"] = std::to_string(history_.started_unix_ms());
  json["now_ms"] =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  json["instance"] = sources.instance;
  json["version"] = sources.build.version;
  json["dpdk"] = sources.build.dpdk;
  json["live"] = health_.live;
  json["ready"] = health_.ready;
  json["draining"] = sources.flags != nullptr && sources.flags->draining.load();
  json["reason"] = health_.reason;
  json["warnings"] = health_.warnings;
  json["limits"] = {{"connections_max", sources.limits.connections_max},
                    {"calls_in_flight_max", sources.limits.calls_in_flight_max}};
  Json& cores = json["cores"] = Json::array();
  for (const CoreSource& core : sources.cores) {
    cores.push_back({{"lcore", core.lcore}, {"role", core.role}});
  }
  json["ports"] = control::to_rows(status_.ports);
  json["rdma_ports"] = control::to_rows(status_.rdma_ports);
  json["listeners"] = control::to_rows(status_.listeners);
  json["backends"] = control::to_rows(status_.backends);
  json["servers"] = control::to_rows(policy_.servers);
  json["routes"] = control::to_rows(policy_.routes);
  json["clients"] = control::to_rows(policy_.clients);
  Json rows = Json::array();
  for (const LiveConnection* connection : connections_.first(query.limit, query.order, query.reversed)) {
    rows.push_back(to_json(*connection));
  }
  json["connections"] = {
      {"count", connections_.count()}, {"sort", to_string(query.order)}, {"reversed", query.reversed}, {"rows", std::move(rows)}};
  Json& peers = json["peers"] = {{"count", connections_.client_count()}, {"rows", Json::array()}};
  for (const ClientSum& client : connections_.busiest_clients(kPeersShown)) {
    peers["rows"].push_back({{"address", client.address},
                             {"connections", client.connections},
                             {"calls_in_flight", client.calls_in_flight},
                             {"credits_granted", client.credits_granted},
                             {"rpcs", client.rpcs},
                             {"rpcs_per_s", client.rates.rpcs_per_s},
                             {"bytes_in_per_s", client.rates.bytes_in_per_s},
                             {"bytes_out_per_s", client.rates.bytes_out_per_s},
                             {"retransmits", client.retransmits},
                             {"retransmits_per_s", client.rates.retransmits_per_s},
                             {"round_trip_seconds", client.round_trip.to_seconds()},
                             {"errors", client.errors},
                             {"errors_per_s", or_null(client.errors_per_s)},
                             {"mean_seconds", or_null(client.mean_seconds)}});
  }
  Json& notices = json["notices"] = Json::array();
  for (const LogLine& line : log_recent()) {
    notices.push_back({{"time_ms", line.unix_ms}, {"level", level_name(line.level)}, {"text", line.text}});
  }
  return to_text(json);
}

}  // namespace cw::telemetry
