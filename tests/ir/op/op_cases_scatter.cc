// Calls of operators that write elements by position or put them in order, and of pads along odd axes.
#include "tests/ir/op/op_cases.h"

namespace rannc::ir::testing {
namespace {

Attributes reducing(const std::string& reduction, Attributes more = {}) {
  more.set("reduction", reduction);
  return more;
}

// Places that are written twice are left to reductions: of several numbers it is open which one stays.
void add_scatter_elements(std::vector<OpCase>& cases) {
  const Attributes last = {{"axis", Dim(-1)}};
  cases.push_back({"scatter_elements", {f("batch,5"), i("batch,1", -5, 5), f("batch,1")}, last});
  cases.push_back({"scatter_elements", {f("3,batch,2"), i("1,batch,2", 0, 3), f("1,batch,2")}});
  cases.push_back({"scatter_elements", {i("batch,5", 0, 9), i("batch,1", 0, 5), i("batch,1", 0, 9)}, last});
  cases.push_back({"scatter_elements", {f("4,3"), i("1,2", 0, 4), f("1,2")}});
  for (const char* reduction : {"add", "mul", "max", "min"}) {
    cases.push_back({"scatter_elements", {f("batch,3"), i("batch,4", -3, 3), f("batch,4")}, reducing(reduction, last)});
    cases.push_back({"scatter_elements",
                     {whole("batch,3", 0, 3), i("batch,4", -3, 3), whole("batch,4", 0, 3)},
                     reducing(reduction, last)});
    cases.push_back(
        {"scatter_elements", {i("batch,3", 0, 5), i("batch,4", 0, 3), i("batch,4", 0, 5)}, reducing(reduction, last)});
  }
}

void add_scatter_nd(std::vector<OpCase>& cases) {
  cases.push_back({"scatter_nd", {f("4,batch,3"), i("1,1", -4, 4), f("1,batch,3")}});
  cases.push_back({"scatter_nd", {f("4,3"), i("1,2", 0, 3), f("1")}});
  cases.push_back({"scatter_nd", {f("batch,4"), i("batch,1,2", -1, 0), f("batch,1")}, reducing("add"), 1, false});
  for (const char* reduction : {"add", "mul", "max", "min"}) {
    cases.push_back({"scatter_nd", {f("3,batch,2"), i("5,1", -3, 3), f("5,batch,2")}, reducing(reduction)});
    cases.push_back(
        {"scatter_nd", {whole("3,batch", 0, 3), i("5,1", -3, 3), whole("5,batch", 0, 3)}, reducing(reduction)});
  }
}

// Axes that no call of ATen lists beside each other, and more axes before the padded one than it takes.
void add_pads(std::vector<OpCase>& cases) {
  for (const char* mode : {"reflect", "edge", "wrap"}) {
    const auto padded = [&](std::string_view shape, std::string_view pads) {
      const Attributes attributes = {{"pads", dims(pads)}, {"mode", std::string(mode)}};
      cases.push_back({"pad", {f(shape)}, attributes});
      Attributes undone = attributes;
      undone.set("sizes", dims(shape));
      if (shape == "batch,3,2,4") cases.push_back({"pad_grad", {f("batch,3,2,7")}, undone});
    };
    padded("batch,3,2,4", "0,0,0,1,0,0,0,2");
    padded("3,batch,4", "1,0,2,2,0,0");
    padded("3,2,batch,2,3", "1,0,0,0,1,0,1,0,1,0");
    padded("4", "2,1");
  }
}

}  // namespace

void add_scatter(std::vector<OpCase>& cases) {
  add_scatter_elements(cases);
  add_scatter_nd(cases);
  const std::vector<OpCase> more = {
      {"scatter_elements_grad", {f("batch,5"), i("batch,2", -5, 5)}, {{"axis", Dim(1)}}},
      {"scatter_nd_grad", {f("4,batch,3"), i("2,1", -4, 4)}},
      {"topk", {f("batch,7")}, {{"k", Dim(3)}}, 2},
      {"topk", {f("5,batch,2")}, {{"k", Dim(2)}, {"axis", Dim(0)}, {"largest", false}}, 2},
      {"topk", {whole("batch,6", 0, 3)}, {{"k", Dim(6)}}, 2},
      {"topk", {i("batch,7", -3, 4)}, {{"k", Dim(3)}, {"largest", false}}, 2},
  };
  cases.insert(cases.end(), more.begin(), more.end());
  add_pads(cases);
}

}  // namespace rannc::ir::testing
