#include "frontend/torchscript/internal/interpreter.h"

#include <ATen/core/function.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace rannc::frontend::torchscript {

namespace {

constexpr uint32_t kMostDepth = 200;
constexpr int64_t kMostTrips = 1 << 16;

namespace jit = torch::jit;
namespace prim = c10::prim;

/// Whether a block only raises an exception.
bool raises(const jit::Block& block) {
  return std::any_of(block.nodes().begin(), block.nodes().end(),
                     [](const jit::Node* node) { return node->kind() == prim::RaiseException; });
}

/// Returns the values that a block reads or returns but does not define. May include values of nested blocks.
std::vector<const jit::Value*> read_from_outside(const jit::Block& block) {
  std::vector<const jit::Value*> found(block.outputs().begin(), block.outputs().end());
  for (const jit::Node* const node : block.nodes()) {
    found.insert(found.end(), node->inputs().begin(), node->inputs().end());
    for (const jit::Block* const within : node->blocks()) {
      const auto more = read_from_outside(*within);
      found.insert(found.end(), more.begin(), more.end());
    }
  }
  return found;
}

bool is_no_grad(const at::IValue& object) {
  return object.toObjectRef().name().find("grad_mode.no_grad") != std::string::npos;
}

/// A tensor constant of rank 0 that is the second operand of arithmetic, as a number. LibTorch runs it so: a trace
/// records numbers as such tensors of doubles, which must not make floats of integers doubles.
std::optional<c10::IValue> number_of_trace(const jit::Node& node) {
  static const std::map<c10::Symbol, size_t> kArithmetic = {
      {c10::aten::add, 3}, {c10::aten::sub, 3}, {c10::aten::mul, 2}, {c10::aten::div, 2}};
  const auto found = kArithmetic.find(node.kind());
  if (found == kArithmetic.end() || node.inputs().size() != found->second) return std::nullopt;
  const auto value = jit::toIValue(node.inputs()[1]);
  if (!value || !value->isTensor() || !value->toTensor().defined() || value->toTensor().dim() != 0) return std::nullopt;
  return c10::IValue(value->toTensor().item());
}

}  // namespace

Result<Item> Interpreter::call(const Object& self, const std::string& method, std::vector<Item> arguments) {
  const jit::Function* const found = state_.object(self).toObjectRef().type()->findMethod(method);
  if (found == nullptr) return error(Location{file_}, fmt::format("'{}' has no method {}", self.path, method));
  arguments.insert(arguments.begin(), Item(self));
  return run(*jit::toGraphFunction(*const_cast<jit::Function*>(found)).graph(), std::move(arguments), self.path);
}

Result<Item> Interpreter::run(const jit::Graph& graph, std::vector<Item> arguments, const std::string& path) {
  if (depth_ == kMostDepth)
    return error(Location{file_}, fmt::format("function calls are nested more than {} deep", kMostDepth));
  if (arguments.size() != graph.inputs().size()) {
    return error(Location{file_}, fmt::format("a function of '{}' takes {} arguments and is given {}", path,
                                              graph.inputs().size(), arguments.size()));
  }
  ++depth_;
  Frame frame{path};
  for (size_t i = 0; i < arguments.size(); ++i) frame.items[graph.inputs()[i]] = std::move(arguments[i]);
  RANNC_TRY(run(frame, *graph.block()));
  --depth_;
  std::vector<Item> results;
  for (const Value* const output : graph.outputs()) {
    RANNC_ASSIGN(Item made, item(frame, *output));
    results.push_back(std::move(made));
  }
  return results.size() == 1 ? results[0] : tuple_of(std::move(results));
}

Result<void> Interpreter::run(Frame& frame, const Block& block) {
  for (const Node* const node : block.nodes()) RANNC_TRY(run(frame, *node));
  return {};
}

Result<void> Interpreter::run(Frame& frame, const Node& node) {
  if (++nodes_ > options_.max_nodes)
    return error(at(frame, node), fmt::format("the program has more than {} nodes", options_.max_nodes));
  if (!growth_.add(region_->graph, region_->counted))
    return growth_.excess(region_->graph, "the program", at(frame, node));
  const auto structure = structures().find(node.kind());
  return structure == structures().end() ? call_operator(frame, node) : (this->*structure->second)(frame, node);
}

Result<Item> Interpreter::item(const Frame& frame, const Value& value) const {
  const auto found = frame.items.find(&value);
  if (found == frame.items.end())
    return error(Location{file_}, fmt::format("value %{} is read before it is defined", value.debugName()));
  return found->second;
}

Result<std::vector<Item>> Interpreter::items(const Frame& frame, const Node& node) const {
  std::vector<Item> found;
  for (const Value* const input : node.inputs()) {
    RANNC_ASSIGN(Item made, item(frame, *input));
    found.push_back(std::move(made));
  }
  return found;
}

std::string Interpreter::name(const Frame& frame, const Value& value) const {
  return fmt::format("{}.{}", frame.path.empty() ? "forward" : frame.path, value.debugName());
}

Location Interpreter::at(const Frame& frame, const Node& node) const {
  Location where{file_};
  // The author's file if the archive names it, or else the code in the archive.
  std::optional<std::tuple<std::string, size_t, size_t>> place;
  try {
    const auto origin = node.sourceRange().findSourceRangeThatGenerated();
    if (origin) place = origin->file_line_col();
  } catch (const std::exception&) {
    // The record is read on first access and may be damaged.
  }
  if (!place || std::get<0>(*place).empty()) place = node.sourceRange().file_line_col();
  if (place && !std::get<0>(*place).empty()) {
    const std::string& source = std::get<0>(*place);
    where.file = source.starts_with("code/") ? file_ + "/" + source : source;
    where.line = static_cast<uint32_t>(std::get<1>(*place));
    where.column = static_cast<uint32_t>(std::get<2>(*place)) + 1;
  }
  where.node = node.outputs().empty() ? node.kind().toQualString() : name(frame, *node.outputs()[0]);
  return where;
}

Result<void> Interpreter::unpack(Frame& frame, const Node& node, const std::vector<Item>& elements) {
  if (elements.size() != node.outputs().size()) {
    return error(
        at(frame, node),
        fmt::format("{} elements are unpacked into {} names: a trace holds for the number with which it was "
                    "recorded; in a loop over the experts that are chosen, record it with inputs by which all are",
                    elements.size(), node.outputs().size()));
  }
  for (size_t i = 0; i < elements.size(); ++i) frame.items[node.outputs()[i]] = elements[i];
  return {};
}

// --- nodes that are no operators

const std::unordered_map<c10::Symbol, Interpreter::Structure>& Interpreter::structures() {
  static const std::unordered_map<c10::Symbol, Structure> kStructures = {
      {prim::Constant, &Interpreter::constant},
      {prim::If, &Interpreter::branch},
      {prim::Loop, &Interpreter::loop},
      {prim::GetAttr, &Interpreter::get_attribute},
      {prim::SetAttr, &Interpreter::set_attribute},
      {prim::CallMethod, &Interpreter::call_method},
      {prim::CallFunction, &Interpreter::call_function},
      {prim::CreateObject, &Interpreter::create_object},
      {prim::Enter, &Interpreter::enter_or_leave},
      {prim::Exit, &Interpreter::enter_or_leave},
      {prim::ListConstruct, &Interpreter::make_sequence},
      {prim::TupleConstruct, &Interpreter::make_sequence},
      {prim::DictConstruct, &Interpreter::make_dictionary},
      {prim::ListUnpack, &Interpreter::unpack_sequence},
      {prim::TupleUnpack, &Interpreter::unpack_sequence},
      {prim::Uninitialized, &Interpreter::nothing},
      {prim::FunctionalGraph, &Interpreter::unsupported},
      {prim::fork, &Interpreter::unsupported},
      {prim::PythonOp, &Interpreter::unsupported},
  };
  return kStructures;
}

Result<void> Interpreter::constant(Frame& frame, const Node& node) {
  const Value& made = *node.outputs()[0];
  if (made.type()->kind() == c10::TypeKind::FunctionType) return nothing(frame, node);  // `CallFunction` asks its type
  const auto value = jit::toIValue(&made);
  if (!value) return error(at(frame, node), "a constant of a kind that is not supported");
  RANNC_ASSIGN(const Item item, state_.literal(*value, name(frame, made), at(frame, node)));
  RANNC_ASSIGN(frame.items[&made], seen_here(item, *region_, at(frame, node)));
  return {};
}

Result<Object> Interpreter::object(const Frame& frame, const Node& node) const {
  RANNC_ASSIGN(const Item found, item(frame, *node.inputs()[0]));
  const auto* const object = found.get<Object>();
  if (object == nullptr) return error(at(frame, node), "an attribute of something that is no object");
  return *object;
}

Result<void> Interpreter::get_attribute(Frame& frame, const Node& node) {
  RANNC_ASSIGN(const Object self, object(frame, node));
  RANNC_ASSIGN(const Item found, state_.attribute(self, node.s(c10::attr::name), at(frame, node)));
  RANNC_ASSIGN(frame.items[node.outputs()[0]], seen_here(found, *region_, at(frame, node)));
  return {};
}

Result<void> Interpreter::call_method(Frame& frame, const Node& node) {
  RANNC_ASSIGN(const Object self, object(frame, node));
  if (is_no_grad(state_.object(self))) return nothing(frame, node);
  RANNC_ASSIGN(std::vector<Item> operands, items(frame, node));
  operands.erase(operands.begin());
  RANNC_ASSIGN(frame.items[node.outputs()[0]], call(self, node.s(c10::attr::name), std::move(operands)));
  return {};
}

Result<void> Interpreter::call_function(Frame& frame, const Node& node) {
  auto* const function = node.inputs()[0]->type()->expectRef<c10::FunctionType>().function();
  RANNC_ASSIGN(std::vector<Item> operands, items(frame, node));
  operands.erase(operands.begin());
  RANNC_ASSIGN(frame.items[node.outputs()[0]],
               run(*jit::toGraphFunction(*function).graph(), std::move(operands), frame.path));
  return {};
}

Result<void> Interpreter::create_object(Frame& frame, const Node& node) {
  const auto type = node.outputs()[0]->type()->expect<c10::ClassType>();
  const auto made = c10::ivalue::Object::create(c10::StrongTypePtr(nullptr, type), type->numAttributes());
  frame.items[node.outputs()[0]] = state_.create(made, frame.path);
  return {};
}

Result<void> Interpreter::enter_or_leave(Frame& frame, const Node& node) {
  RANNC_ASSIGN(const Item of, item(frame, *node.inputs()[0]));
  const auto* const object = of.get<Object>();
  if (object == nullptr || !is_no_grad(state_.object(*object)))
    return error(at(frame, node), "with statements other than no_grad are not supported");
  calls_.set_no_grad(calls_.no_grad() + (node.kind() == prim::Enter ? 1 : -1));
  return nothing(frame, node);
}

Result<void> Interpreter::make_sequence(Frame& frame, const Node& node) {
  RANNC_ASSIGN(std::vector<Item> elements, items(frame, node));
  const bool is_tuple = node.kind() == prim::TupleConstruct;
  frame.items[node.outputs()[0]] = is_tuple ? tuple_of(std::move(elements)) : list_of(std::move(elements));
  return {};
}

Result<void> Interpreter::make_dictionary(Frame& frame, const Node& node) {
  RANNC_ASSIGN(const std::vector<Item> operands, items(frame, node));
  auto made = std::make_shared<Dictionary>();
  for (size_t i = 0; i + 1 < operands.size(); i += 2) made->entries.emplace_back(operands[i], operands[i + 1]);
  frame.items[node.outputs()[0]] = std::move(made);
  return {};
}

Result<void> Interpreter::unpack_sequence(Frame& frame, const Node& node) {
  RANNC_ASSIGN(const Item given, item(frame, *node.inputs()[0]));
  const Sequence* const sequence = given.sequence();
  if (sequence == nullptr) return error(at(frame, node), fmt::format("{} is unpacked", describe(given)));
  return unpack(frame, node, sequence->elements);
}

Result<void> Interpreter::nothing(Frame& frame, const Node& node) {
  for (const Value* const output : node.outputs()) frame.items[output] = Item();
  return {};
}

Result<void> Interpreter::unsupported(Frame& frame, const Node& node) {
  return error(at(frame, node), fmt::format("{} is not supported", node.kind().toQualString()));
}

// State that a module keeps between steps would be a side effect, which training does not support.
Result<void> Interpreter::set_attribute(Frame& frame, const Node& node) {
  RANNC_ASSIGN(const Object self, object(frame, node));
  RANNC_ASSIGN(const Item value, item(frame, *node.inputs()[1]));
  const std::string name = node.s(c10::attr::name), of = self.path.empty() ? "the model" : self.path;
  if (region_ != &root_) {
    return error(at(frame, node),
                 fmt::format("the program sets '{}' of '{}' in a data-dependent branch or loop", name, of));
  }
  const bool is_module = state_.object(self).toObjectRef().type()->is_module();
  RANNC_ASSIGN(const Item before, state_.attribute(self, name, at(frame, node)));
  const auto *const tensor = tensor_of(value), *const stored = tensor_of(before);
  const bool is_buffer = is_module && stored != nullptr && !(*stored)->state().empty();
  if (is_buffer) calls_.add_write(buffer_write(root_.graph, (*stored)->state(), at(frame, node), "the program sets"));
  if (is_module && !is_buffer && tensor && ir::is_float(root_.graph.type((*tensor)->now()).dtype)) {
    return error(at(frame, node), fmt::format("the program sets '{}' of '{}' to a tensor, which would be state between "
                                              "steps: training updates only the statistics of batch normalization",
                                              name, of));
  }
  if (is_module && !is_buffer) ++notes_.counted_remarks["attributes that the program sets while it runs are not kept"];
  state_.set_attribute(self, name, value);
  return {};
}

Result<void> Interpreter::branch(Frame& frame, const Node& node) {
  RANNC_ASSIGN(const Item condition, item(frame, *node.inputs()[0]));
  const bool* known = condition.get<bool>();
  size_t taken = known && !*known ? 1 : 0;
  if (known == nullptr) {
    const bool then_raises = raises(*node.blocks()[0]), else_raises = raises(*node.blocks()[1]);
    if (then_raises == else_raises && condition.is_of_data()) return branch_of_data(frame, node, condition);
    if (then_raises == else_raises) {
      return error(at(frame, node), fmt::format("a branch depends on {}, which is not known before the model runs",
                                                describe(condition)));
    }
    taken = then_raises ? 1 : 0;
    ++notes_.counted_remarks["checks of the program depend on what is known only when it runs: they are not made"];
  }
  const Block& block = *node.blocks()[taken];
  RANNC_TRY(run(frame, block));
  for (size_t i = 0; i < node.outputs().size(); ++i) {
    RANNC_ASSIGN(Item made, item(frame, *block.outputs()[i]));
    frame.items[node.outputs()[i]] = std::move(made);
  }
  return {};
}

Result<void> Interpreter::loop(Frame& frame, const Node& node) {
  RANNC_ASSIGN(std::vector<Item> states, items(frame, node));
  const Item count = states[0];
  const auto* const trips = count.get<ir::Dim>();
  Item condition = states[1];
  if (trips == nullptr && !count.is_of_data())
    return error(at(frame, node), fmt::format("the trip count of a loop depends on {}", describe(count)));
  states.erase(states.begin(), states.begin() + 2);
  const Block& body = *node.blocks()[0];
  const int64_t most = trips && trips->is_constant() ? trips->constant() : 0;
  int64_t trip = 0;
  for (; trip < most; ++trip) {
    const auto* const goes_on = condition.get<bool>();
    if (goes_on == nullptr) break;
    if (!*goes_on) return unpack(frame, node, states);
    if (trip == kMostTrips) return error(at(frame, node), fmt::format("a loop runs more than {} times", kMostTrips));
    frame.items[body.inputs()[0]] = Item(ir::Dim(trip));
    for (size_t i = 0; i < states.size(); ++i) frame.items[body.inputs()[i + 1]] = states[i];
    RANNC_TRY(run(frame, body));
    RANNC_ASSIGN(condition, item(frame, *body.outputs()[0]));
    for (size_t i = 0; i < states.size(); ++i) {
      RANNC_ASSIGN(states[i], item(frame, *body.outputs()[i + 1]));
    }
  }
  const bool is_done = trips && trips->is_constant() && trip >= most;
  if (is_done) return unpack(frame, node, states);
  const bool is_known = condition.get<bool>() || condition.is_of_data();
  if (!is_known)
    return error(
        at(frame, node),
        fmt::format("a loop condition depends on {}, which is not known before the model runs", describe(condition)));
  Loop rest{.condition = condition, .states = std::move(states)};
  const bool is_endless = trips && *trips == ir::Dim(std::numeric_limits<int64_t>::max());  // `while`
  if (trips && !is_endless) rest.trips = *trips - ir::Dim(trip);
  if (!trips) rest.counted = count;
  return loop_of_data(frame, node, rest, trip);
}

// --- data-dependent control flow

Site Interpreter::site(const Frame& frame, const Node& node) {
  return {*region_, at(frame, node), node.outputs().empty() ? "control" : name(frame, *node.outputs()[0]), notes_,
          options_.max_trips};
}

Result<Item> Interpreter::seen_here(const Item& item, Region& region, const Location& where) {
  if (region.around == nullptr) return item;
  RANNC_ASSIGN(const Item outside, seen_here(item, *region.around, where));
  return taken(Site{*region.around, where, "state", notes_}, region, outside);
}

Result<std::vector<Item>> Interpreter::run_inside(const Site& site, Region& inside, const Frame& frame,
                                                  const Block& block, const std::vector<Item>& given) {
  Frame own{frame.path};
  for (const Value* const value : read_from_outside(block)) {
    const auto found = frame.items.find(value);
    if (found == frame.items.end()) continue;  // defined in a nested block
    RANNC_ASSIGN(own.items[value], taken(site, inside, found->second));
  }
  for (size_t i = 0; i < given.size(); ++i) own.items[block.inputs()[i]] = given[i];
  Region* const before = std::exchange(region_, &inside);
  const auto done = run(own, block);
  region_ = before;
  RANNC_TRY(done);
  std::vector<Item> made;
  for (const Value* const output : block.outputs()) {
    RANNC_ASSIGN(Item each, item(own, *output));
    made.push_back(std::move(each));
  }
  return made;
}

Result<void> Interpreter::branch_of_data(Frame& frame, const Node& node, const Item& condition) {
  const Site here = site(frame, node);
  const auto block = [&](size_t index) {
    return [&, index](Region& inside) { return run_inside(here, inside, frame, *node.blocks()[index], {}); };
  };
  RANNC_ASSIGN(const std::vector<Item> made, add_branch(here, condition, block(0), block(1)));
  return unpack(frame, node, made);
}

Result<void> Interpreter::loop_of_data(Frame& frame, const Node& node, const Loop& loop, int64_t done) {
  const Site here = site(frame, node);
  const auto trip = [&](Region& inside, const Item& number,
                        const std::vector<Item>& states) -> Result<std::pair<Item, std::vector<Item>>> {
    std::vector<Item> given = {number};
    if (done > 0) {
      Call call(inside.graph, here.where, "aten::add.int", "trip", {}, notes_);
      const ValueId own = call.emit("add", {call.tensor(number, "trip"), call.tensor(Item(ir::Dim(done)), "done")});
      if (call.failure()) return *call.failure();
      given[0] = of_data(std::make_shared<Tensor>(own), describe(number));
    }
    given.insert(given.end(), states.begin(), states.end());
    RANNC_ASSIGN(std::vector<Item> made, run_inside(here, inside, frame, *node.blocks()[0], given));
    Item goes_on = made[0];
    made.erase(made.begin());
    return std::pair(std::move(goes_on), std::move(made));
  };
  RANNC_ASSIGN(const std::vector<Item> made, add_loop(here, loop, trip));
  return unpack(frame, node, made);
}

Result<void> Interpreter::call_operator(Frame& frame, const Node& node) {
  RANNC_ASSIGN(std::vector<Item> operands, items(frame, node));
  if (const auto number = number_of_trace(node)) {
    RANNC_ASSIGN(operands[1], state_.literal(*number, name(frame, *node.outputs()[0]), at(frame, node)));
  }
  const c10::FunctionSchema* const schema = node.maybeSchema();
  std::string spelled = node.kind().toQualString();
  if (schema != nullptr && !schema->overload_name().empty()) spelled += "." + schema->overload_name();
  std::vector<Call::Argument> arguments;
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool named = schema != nullptr && i < schema->arguments().size();
    arguments.push_back({named ? schema->arguments()[i].name() : std::to_string(i), operands[i]});
  }
  std::vector<std::string> names;
  for (const Value* const output : node.outputs()) names.push_back(name(frame, *output));
  RANNC_ASSIGN(const std::vector<Item> made,
               calls_.run(region_->graph, at(frame, node), spelled, std::move(arguments), names, frame.path));
  return unpack(frame, node, made);
}

}  // namespace rannc::frontend::torchscript
