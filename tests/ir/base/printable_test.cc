// Texts of files from strangers act neither on a terminal nor in patterns.
#include "ir/base/printable.h"

#include <gtest/gtest.h>

#include <string>

#include "ir/base/diagnostic.h"
#include "ir/base/name_pattern.h"
#include "ir/graph/graph.h"

namespace rannc {
namespace {

TEST(Printable, KeepsWhatIsSeen) {
  for (const std::string text :
       {"", "layer.0/MatMul", "größe", "重み", "a\\x1b", "\u2014 \u2192", "\xff\xfe", "\xe2", "\xc2"}) {
    EXPECT_TRUE(is_printable(text)) << text;
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, EscapesWhatActs) {
  const std::pair<std::string, std::string> cases[] = {{"\x1b[2J", "\\x1b[2J"},
                                                       {"a\nb\r", "a\\x0ab\\x0d"},
                                                       {"\x7f", "\\x7f"},
                                                       {std::string(1, '\0'), "\\x00"},
                                                       {"\xc2\x9b"
                                                        "2J",
                                                        "\\u009b2J"},
                                                       {"\xe2\x80\xae"
                                                        "lin",
                                                        "\\u202elin"},
                                                       {"\xe2\x81\xa7", "\\u2067"}};
  for (const auto& [text, shown] : cases) {
    EXPECT_FALSE(is_printable(text)) << shown;
    EXPECT_EQ(printable(text), shown);
    EXPECT_TRUE(is_printable(shown));
  }
}

TEST(Printable, LinesAreIndented) { EXPECT_EQ(printable_lines("a\nwrote\x1b\n"), "a\n  wrote\\x1b\n  "); }

TEST(Printable, DiagnosticsAre) {
  const Diagnostic failure =
      error({"m\x1b.onnx", 0, 0, "n\nwrote m.rannc"}, "has '\x1b[2J\nwrote m.rannc'").note("\x07");
  EXPECT_EQ(failure.str(), "m\\x1b.onnx: 'n\\x0awrote m.rannc': error: has '\\x1b[2J\n  wrote m.rannc'\n  note: \\x07");
}

TEST(Printable, NamesOfGraphsAre) {
  ir::Graph graph;
  const ValueId value = graph.add_value(ir::ValueKind::kInput, "a\x1b", {});
  EXPECT_EQ(graph.value(value).name, "a\\x1b");
  EXPECT_EQ(graph.find("a\x1b"), value);
  EXPECT_EQ(ir::Dim::symbol("s\n").str(), "s\\x0a");
}

TEST(NamePattern, HasTwoWildcards) {
  for (const char* const pattern :
       {"layer[0].w", "*", "layer*", "*w", "l*[?].w", "layer???.w", "*a*[*.*w*", "**layer[0].w**"})
    EXPECT_TRUE(fits_pattern("layer[0].w", pattern)) << pattern;
  for (const char* const pattern :
       {"", "layer[0-9].w", "layer", "layer[0]", "?", "*x", "layer[??].w", "layer\\[0].w", "w*"})
    EXPECT_FALSE(fits_pattern("layer[0].w", pattern)) << pattern;
  EXPECT_TRUE(fits_pattern("", ""));
  EXPECT_TRUE(fits_pattern("", "*"));
  EXPECT_FALSE(fits_pattern("", "?"));
  EXPECT_TRUE(fits_pattern("a\\[", "a\\["));
}

}  // namespace
}  // namespace rannc
