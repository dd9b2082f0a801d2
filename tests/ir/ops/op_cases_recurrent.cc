// Calls of recurrent layers: one direction and both, with and without biases and states, of one step and several.
#include "tests/ir/ops/op_cases.h"

namespace rannc::ir::testing {

void add_recurrent(std::vector<OpCase>& cases) {
  const Attributes relu = {{"activation", std::string("relu")}};
  const std::vector<OpCase> more = {
      {"lstm", {f("4,batch,3"), f("1,8,3"), f("1,8,2"), f("1,8"), f("1,8"), f("1,batch,2"), f("1,batch,2")}, {}, 3},
      {"lstm", {f("3,2*batch,3"), f("1,16,3"), f("1,16,4")}, {}, 3},
      {"lstm", {f("3,batch,2"), f("1,8,2"), f("1,8,2"), f("1,8"), f("1,8"), f("1,batch,2")}, {}, 3},
      {"lstm", {f("3,batch,2"), f("1,8,2"), f("1,8,2"), f("1,8"), f("1,8"), none(), f("1,batch,2")}, {}, 3},
      {"lstm", {f("3,batch,3"), f("2,8,3"), f("2,8,2"), f("2,8"), f("2,8"), f("2,batch,2"), f("2,batch,2")}, {}, 3},
      {"lstm", {f("2,batch,5"), f("2,4,5"), f("2,4,1")}, {}, 3},
      {"lstm", {f("1,batch,3"), f("1,8,3"), f("1,8,2"), f("1,8"), f("1,8"), f("1,batch,2"), f("1,batch,2")}, {}, 3},
      {"lstm", {f("3,2,3"), f("1,8,3"), f("1,8,2")}, {}, 3},
      {"gru", {f("4,batch,3"), f("1,6,3"), f("1,6,2"), f("1,6"), f("1,6"), f("1,batch,2")}, {}, 2},
      {"gru", {f("3,2*batch,3"), f("1,12,3"), f("1,12,4")}, {}, 2},
      {"gru", {f("3,batch,3"), f("2,6,3"), f("2,6,2"), f("2,6"), f("2,6"), f("2,batch,2")}, {}, 2},
      {"gru", {f("1,batch,3"), f("1,6,3"), f("1,6,2"), f("1,6"), f("1,6")}, {}, 2},
      {"rnn", {f("4,batch,3"), f("1,2,3"), f("1,2,2"), f("1,2"), f("1,2"), f("1,batch,2")}, {}, 2},
      {"rnn", {f("3,2*batch,3"), f("1,4,3"), f("1,4,4")}, relu, 2},
      {"rnn", {f("3,batch,3"), f("2,2,3"), f("2,2,2"), f("2,2"), f("2,2"), f("2,batch,2")}, {}, 2},
      {"rnn", {f("1,batch,3"), f("2,2,3"), f("2,2,2")}, {}, 2},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

}  // namespace rannc::ir::testing
