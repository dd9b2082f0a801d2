// The tables of engines and transports: every row can be found by its name and described.
#include <gtest/gtest.h>

#include <set>

#include "runtime/engine/engine.h"
#include "runtime/transport/transports.h"

namespace rannc::runtime {
namespace {

TEST(Engines, AreFoundByName) {
  std::set<std::string_view> names;
  for (const Engine& engine : engines()) {
    EXPECT_TRUE(names.insert(engine.name).second) << engine.name;
    EXPECT_FALSE(engine.summary.empty()) << engine.name;
    EXPECT_NE(engine.load, nullptr) << engine.name;
    EXPECT_EQ(find_engine(engine.name).value(), &engine);
  }
  EXPECT_EQ(find_engine("").value(), &engines().front());
  EXPECT_EQ(find_engine("steam").diagnostic().message, "unknown engine 'steam'; expected one of: explicit, native");
}

TEST(Transports, AreFoundByName) {
  std::set<std::string_view> names;
  for (const TransportKind& kind : transports()) {
    EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
    EXPECT_FALSE(kind.summary.empty()) << kind.name;
    EXPECT_NE(kind.open == nullptr, kind.join == nullptr) << kind.name;
    EXPECT_EQ(find_transport(kind.name), &kind);
  }
  EXPECT_EQ(find_transport("pigeon"), nullptr);
  EXPECT_EQ(default_transport(false).name, "local");
  EXPECT_EQ(default_transport(true).name, "auto");
}

}  // namespace
}  // namespace rannc::runtime
