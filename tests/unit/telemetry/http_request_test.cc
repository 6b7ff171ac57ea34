#include "telemetry/http_request.h"

#include <gtest/gtest.h>

#include <string>

namespace cw::telemetry {
namespace {

HttpRequest get(const std::string& target, const std::string& fields = "") {
  static std::string text;  // requests point into it
  text = "GET " + target + " HTTP/1.1\r\n" + fields + "\r\n";
  return http_parse(text);
}

TEST(HttpRequest, PathsOfTheLivePageAreKnown) {
  EXPECT_EQ(get("/").page, HttpPage::kIndex);
  EXPECT_EQ(get("/api/snapshot?limit=5").page, HttpPage::kSnapshot);
  EXPECT_EQ(get("/api/history").page, HttpPage::kHistory);
  EXPECT_EQ(get("/page/main.js").page, HttpPage::kAsset);
  EXPECT_EQ(get("/page/main.js").path, "/page/main.js");
  EXPECT_EQ(get("/page").status, HttpStatus::kNotFound);
  EXPECT_EQ(get("/api/").status, HttpStatus::kNotFound);
}

TEST(HttpRequest, FieldsAreFoundInWhateverCaseAndSpacing) {
  const HttpRequest request = get("/", "hOsT:\t localhost:9464 \r\nIF-NONE-MATCH:\"x\"\r\naccept-encoding: br, GZip ;q=0.5\r\n");
  EXPECT_EQ(request.host, "localhost:9464");
  EXPECT_EQ(request.if_none_match, "\"x\"");
  EXPECT_TRUE(request.accepts_gzip);
}

TEST(HttpRequest, FieldsEndWithTheEmptyLine) {
  EXPECT_EQ(get("/", "Accept: */*\r\n").host, "");
  EXPECT_FALSE(get("/", "X-Host: a\r\nHost\r\nHostname: b\r\n").accepts_gzip);
  EXPECT_EQ(get("/", "X-Host: a\r\nHostname: b\r\n").host, "");
}

TEST(HttpRequest, TwoHostsAreABadRequest) {
  const HttpRequest request = get("/", "Host: a\r\nHost: b\r\n");
  EXPECT_EQ(request.status, HttpStatus::kBadRequest);
  EXPECT_EQ(request.page, HttpPage::kNone);
}

TEST(HttpRequest, GzipIsTakenByThoseWhoSaySo) {
  EXPECT_FALSE(get("/").accepts_gzip);
  EXPECT_FALSE(get("/", "Accept-Encoding: identity, br\r\n").accepts_gzip);
  EXPECT_FALSE(get("/", "Accept-Encoding: gzip;q=0\r\n").accepts_gzip);
  EXPECT_FALSE(get("/", "Accept-Encoding: gzip; q=0.000\r\n").accepts_gzip);
  EXPECT_TRUE(get("/", "Accept-Encoding: deflate,gzip;q=0.001\r\n").accepts_gzip);
}

TEST(HttpRequest, QueryValuesAreFoundByName) {
  EXPECT_EQ(http_query_value("a=1&bb=2&b=3&b=4", "b"), "3");
  EXPECT_EQ(http_query_value("reversed", "reversed"), "");
  EXPECT_EQ(http_query_value("a=b=c", "a"), "b=c");
  EXPECT_EQ(http_query_value("", "a"), std::nullopt);
  EXPECT_EQ(http_query_value("&&=&aa=1", "a"), std::nullopt);
}

TEST(HttpRequest, OnlyLoopbackNamesAreLoopback) {
  for (const char* host : {"localhost", "LocalHost:9464", "127.0.0.1", "127.9.8.7:80", "[::1]", "[::1]:9464"}) {
    EXPECT_TRUE(http_host_is_loopback(host)) << host;
  }
  for (const char* host : {"", "example.com", "localhost.example.com", "127.0.0.1.example.com:9464", "192.0.2.1", "[2001:db8::1]",
                           "[::1", "::1", "0.0.0.0", "localhost@evil", "2130706433"}) {
    EXPECT_FALSE(http_host_is_loopback(host)) << host;
  }
}

TEST(HttpRequest, OpenMetricsIsForWhoAcceptsOurVersion) {
  const auto accepts = [](std::string_view types) {
    const std::string request = "GET /metrics HTTP/1.1\r\nAccept: " + std::string(types) + "\r\n\r\n";
    return http_parse(request).accepts_openmetrics;
  };
  for (const char* types : {"application/openmetrics-text", "Application/OpenMetrics-Text; version=1.0.0; charset=utf-8",
                            "text/plain;q=0.5, application/openmetrics-text;version=1.0.0;q=0.8",
                            "application/openmetrics-text;version=0.0.1;q=0.75,application/openmetrics-text;version=1.0.0",
                            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5"}) {
    EXPECT_TRUE(accepts(types)) << types;
  }
  for (const char* types : {"", "*/*", "text/plain;version=0.0.4", "application/openmetrics-text;version=0.0.1",
                            "application/openmetrics-text;version=1.0.0;q=0", "application/openmetrics-textual", ";;,,;"}) {
    EXPECT_FALSE(accepts(types)) << types;
  }
}

TEST(HttpAnswer, BrowsersAreToldToTrustNothingElse) {
  const std::string answer = http_answer({.content_type = "text/plain", .body = "x"}, false).bytes;
  for (const char* field :
       {"Content-Security-Policy: default-src 'self'; ", "frame-ancestors 'none'", "X-Content-Type-Options: nosniff\r\n",
        "X-Frame-Options: DENY\r\n", "Referrer-Policy: no-referrer\r\n", "Cross-Origin-Resource-Policy: same-origin\r\n",
        "Cache-Control: no-store\r\n"}) {
    EXPECT_NE(answer.find(field), std::string::npos) << field;
  }
  EXPECT_EQ(answer.find("Access-Control"), std::string::npos);
}

TEST(HttpAnswer, WhatHasATagMayBeKeptIfAskedForAnew) {
  const std::string answer =
      http_answer({.content_type = "text/css", .body = "body", .etag = "\"t\"", .gzip = true}, false).bytes;
  EXPECT_NE(answer.find("Cache-Control: no-cache\r\nETag: \"t\"\r\n"), std::string::npos) << answer;
  EXPECT_NE(answer.find("Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n"), std::string::npos) << answer;
}

TEST(HttpAnswer, NotModifiedHasNoBody) {
  const std::string answer =
      http_answer({.status = HttpStatus::kNotModified, .body = "body", .etag = "\"t\"", .gzip = true}, false).bytes;
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 304 Not Modified\r\n")) << answer;
  EXPECT_EQ(answer.find("Content-Length"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << answer;
}

}  // namespace
}  // namespace cw::telemetry
