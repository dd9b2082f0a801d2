// What is known of the memory of views.
#include "ir/graph/views.h"

#include <gtest/gtest.h>

#include "ir/text/text.h"

namespace rannc::ir {
namespace {

Graph graph() {
  return parse_graph(R"(rannc.graph 1
batch b
input %x: f32[b,6,24] samples 0
input %h: f16[b,6,24] samples 0
#0 %q: f32[b,6,8] samples 0, %k: f32[b,6,8] samples 0, %v: f32[b,6,8] samples 0 = core.split(%x) {axis = 2, sizes = [8,8,8]}
#1 %r: f32[b,6,2,4] samples 0 = core.reshape(%k) {shape = [b,6,2,4]}
#2 %p: f32[b,2,6,4] samples 0 = core.permute(%r) {dims = [0,2,1,3]}
#3 %t: f32[b,2,4,6] samples 0 = core.permute(%p) {dims = [0,1,3,2]}
#4 %o: f32[b,6,2] samples 0, %w: f32[b,6,22] samples 0 = core.split(%x) {axis = 2, sizes = [2,22]}
#5 %s: f32[b,6,12] samples 0 = core.slice(%x) {axes = [2], starts = [4], ends = [16]}
#6 %f: f16[b,6,4] samples 0, %g: f16[b,6,20] samples 0 = core.split(%h) {axis = 2, sizes = [4,20]}
#7 %u: f32[b,1,2,6,4] samples 0 = core.unsqueeze(%p) {axes = [1]}
#8 %e: f32[b,3,2,6,4] samples 0 = core.expand(%u) {shape = [b,3,2,6,4]}
#9 %m: f32[b,6,8] samples 0 = core.add(%v, %v)
inputs [%x, %h]
outputs [%t, %w, %s, %f, %g, %e, %m, %q]
)",
                     "t.rir")
      .value();
}

TEST(Views, KnowWhereRowsBegin) {
  const Graph of = graph();
  const Views views(of);
  const auto has = [&](const char* name) { return views.has_rows(of, of.find(name), 16); };
  for (const char* name : {"x", "q", "k", "v", "r", "p", "u", "o", "m", "f"}) EXPECT_TRUE(has(name)) << name;
  EXPECT_FALSE(has("t")) << "rows lie apart";
  EXPECT_FALSE(has("w")) << "8 bytes after its base";
  EXPECT_FALSE(has("g")) << "8 bytes after its base";
  EXPECT_FALSE(has("s")) << "bounds of slices are not followed";
  EXPECT_FALSE(has("e")) << "an axis repeats elements";
  EXPECT_TRUE(views.has_rows(of, of.find("w"), 8));
  EXPECT_FALSE(views.has_rows(of, of.find("x"), 64)) << "96 bytes from row to row";
}

}  // namespace
}  // namespace rannc::ir
