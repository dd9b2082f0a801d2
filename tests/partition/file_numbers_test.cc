// Numbers of cluster files and profile databases have ranges.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "ir/base/replacement.h"
#include "partition/cluster.h"
#include "partition/cost/profile_database.h"

namespace rannc::partition {
namespace {

std::string seed(const std::string& name) { return read_file(RANNC_SOURCE_DIR "/tests/fuzz/seeds/" + name).value(); }

// Texts in place of a number, and whether they are numbers within some field's range.
const std::vector<std::string> kWrong = {
    "-1", "0", "9223372036854775808", "18446744073709551615", "1e400", "nan", "null", "\"x\"", "[]", "{}"};

/// `text` with `value` in place of its number behind `at`, which becomes the end of that number; empty after the last.
std::string replaced_number(const std::string& text, size_t& at, const std::string& value, std::string& key) {
  at = text.find_first_of("=[,", at);
  if (at == std::string::npos) return {};
  at = std::min(text.find_first_not_of(' ', at + 1), text.size());
  const size_t end = text.find_first_not_of("0123456789.e-", at);
  if (end == at) return replaced_number(text, at, value, key);
  const size_t equals = text.rfind(" = ", at);
  const size_t begin = text.find_last_of(" \n{", equals - 1) + 1;
  key = text.substr(begin, equals - begin);
  return text.substr(0, at) + value + text.substr(end);
}

TEST(NumbersOfFiles, OfClustersHaveRanges) {
  size_t numbers = 0;
  for (const char* const name : {"uniform.toml", "unequal.toml"}) {
    const std::string text = seed(name);
    ASSERT_TRUE(parse_cluster(text, name).ok());
    for (const std::string& wrong : kWrong) {
      std::string key, damaged;
      for (size_t at = 0; !(damaged = replaced_number(text, at, wrong, key)).empty(); ++numbers) {
        SCOPED_TRACE(std::string(name) + " " + key + " = " + wrong);
        const bool may_be_zero = key.ends_with("_ns") || key == "nodes" || key == "devices";
        if (wrong == "0" && may_be_zero) continue;
        const auto read = parse_cluster(damaged, name);
        if (wrong.starts_with('9') || wrong.starts_with("18")) {
          // 2^63 is no number of TOML, and a rate may be 1.8e19 where it is written as a float.
          EXPECT_FALSE(read.ok());
          continue;
        }
        ASSERT_FALSE(read.ok());
        const std::string said = read.diagnostic().str();
        EXPECT_NE(said.find(name), std::string::npos) << said;
        const bool parsed = wrong != "1e400" && wrong != "null" && !(key == "flops" && wrong == "{}");
        EXPECT_TRUE(!parsed || said.find("'" + key + "'") != std::string::npos) << said;
        EXPECT_GT(read.diagnostic().where.line, 0U) << said;
      }
    }
  }
  EXPECT_EQ(numbers, kWrong.size() * 34) << "numbers of both files";
}

TEST(NumbersOfFiles, OfProfilesHaveRanges) {
  const std::string name = "profile.json";
  const auto good = nlohmann::json::parse(seed(name));
  ASSERT_TRUE(ProfileDatabase::parse(good.dump(), name).ok());
  const auto fields = good.flatten();
  for (const auto& [path, value] : fields.items()) {
    if (!value.is_number()) continue;
    const nlohmann::json::json_pointer number(path);
    for (const std::string& wrong : kWrong) {
      SCOPED_TRACE(path + " " + wrong);
      if (wrong == "-1" && number.back() == "pending_bytes") continue;  // a saving
      if (wrong == "0" && number.back() != "rannc_profile") continue;
      auto damaged = good;
      damaged[number] = "WRONG";
      std::string text = damaged.dump();
      text.replace(text.find("\"WRONG\""), 7, wrong);
      const auto read = ProfileDatabase::parse(text, name);
      ASSERT_FALSE(read.ok());
      const std::string said = read.diagnostic().str();
      EXPECT_NE(said.find(name), std::string::npos) << said;
      const bool parsed = wrong != "1e400" && wrong != "nan";
      EXPECT_TRUE(!parsed || said.find(number.back()) != std::string::npos) << said;
    }
  }
}

// Numbers of samples, devices and bytes.
TEST(NumbersOfFiles, OfMembersOfProfilesHaveRanges) {
  const std::string name = "profile.json";
  const auto good = nlohmann::json::parse(seed(name));
  const auto fields = good.flatten();
  std::set<std::string> counts;
  for (const auto& [path, value] : fields.items()) {
    for (nlohmann::json::json_pointer at(path); !at.empty(); at.pop_back()) {
      if (at.back().find_first_not_of("0123456789") == std::string::npos) counts.insert(at.to_string());
    }
  }
  EXPECT_EQ(counts.size(), 12U);
  for (const std::string& path : counts) {
    const nlohmann::json::json_pointer count(path);
    for (const std::string& wrong : kWrong) {
      SCOPED_TRACE(path + " " + wrong);
      auto damaged = good;
      auto& members = damaged[count.parent_pointer()];
      members[wrong] = members[count.back()];
      members.erase(count.back());
      const auto read = ProfileDatabase::parse(damaged.dump(), name);
      ASSERT_FALSE(read.ok());
      EXPECT_NE(read.diagnostic().str().find("'" + wrong + "' is not a number of"), std::string::npos)
          << read.diagnostic().str();
    }
  }
}

}  // namespace
}  // namespace rannc::partition
