#include "telemetry/flat_fields.h"

#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <string>

#include "tests/unit/telemetry/synthetic.h"

namespace cw::telemetry {
namespace {

std::map<std::string, uint64_t> fields_of(const FlatQuery& query) {
  SyntheticCores cores(1);
  cores.publish(fill_synthetic);
  // Nobody plays the core now, so this waits for its time and then takes what was published.
  std::map<std::string, uint64_t> fields;
  for (const FlatField& field : flat_fields(Collector(cores.sources()).Collect(), query)) {
    EXPECT_TRUE(fields.emplace(field.name, field.value).second) << field.name << " twice";
  }
  return fields;
}

TEST(FlatFields, LabelsBecomePartOfTheName) {
  const auto fields = fields_of({.prefixes = {"roce_packets"}});
  ASSERT_EQ(fields.size(), 4u);  // two ports, two directions
  EXPECT_TRUE(fields.contains("roce_packets_total_0_rx"));
  EXPECT_TRUE(fields.contains("roce_packets_total_1_tx"));
}

TEST(FlatFields, ChosenLabelIsLeftOut) {
  const auto all = fields_of({.prefixes = {"roce_packets"}});
  const auto chosen = fields_of({.prefixes = {"roce_packets"}, .label = "port", .value = "1"});
  ASSERT_EQ(chosen.size(), 2u);
  EXPECT_EQ(chosen.at("roce_packets_total_rx"), all.at("roce_packets_total_1_rx"));
  EXPECT_TRUE(fields_of({.prefixes = {"roce_packets"}, .label = "port", .value = "7"}).empty());
}

TEST(FlatFields, SumsAddTheSeriesOfAFamily) {
  const auto all = fields_of({.prefixes = {"roce_packets"}});
  const auto summed = fields_of({.prefixes = {"roce_packets"}, .summed = true});
  ASSERT_EQ(summed.size(), 1u);
  uint64_t sum = 0;
  for (const auto& [name, value] : all) {
    sum += value;
  }
  EXPECT_EQ(summed.at("roce_packets_total"), sum);
}

TEST(FlatFields, SecondsAreWholeMicroseconds) {
  const auto fields = fields_of({.prefixes = {"rpc_stage"}});
  EXPECT_EQ(fields.at("rpc_stage_duration_count_backend"), 1u);
  EXPECT_EQ(fields.at("rpc_stage_duration_microseconds_sum_backend"), 3000u);
}

TEST(FlatFields, EveryAnswerKeepsToDpdksBounds) {
  for (const bool summed : {false, true}) {
    const auto fields = fields_of({.summed = summed});
    EXPECT_LE(fields.size(), kFlatFieldsMax);
    EXPECT_GT(fields.size(), 100u);
    for (const auto& [name, value] : fields) {
      EXPECT_LE(name.size(), kFlatNameBytesMax);
      for (const char c : name) {
        EXPECT_TRUE(std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') << name;
      }
    }
  }
  // All families, with room to spare for new ones.
  EXPECT_LT(fields_of({.summed = true}).size(), kFlatFieldsMax - 20);
}

}  // namespace
}  // namespace cw::telemetry
