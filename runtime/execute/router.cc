// Routes messages between the replicas of stages.
#include "runtime/internal/router.h"

#include <fmt/format.h>

namespace rannc::runtime {
namespace {

ir::SampleRange shifted(ir::SampleRange range, int64_t by) { return {range.first + by, range.last + by}; }

int64_t bound(const ir::Dim& dim, const ir::Bindings& symbols) {
  const auto value = dim.evaluate(symbols);
  RANNC_CHECK(value.has_value()) << "extent " << dim.str() << " of a batch axis is not bound";
  return *value;
}

Value sum(Value into, const Value& term) { return into == nullptr ? term : into->plus(*term); }

}  // namespace

void Router::begin_step(const StepInput& input) {
  input_ = &input;
  mailbox_.clear();
  loss_seeds_.clear();
  for (const Value& seed : input.loss_seeds) loss_seeds_.push_back(hardware().upload(seed));
}

ir::SampleRange Router::own(StageId stage, uint32_t micro_batch) const {
  const int replica = dependencies_.replica(stage, device_);
  RANNC_CHECK(replica >= 0) << "a row has actions of its own stages only";
  const ir::PipelineShape& shape = pipeline_.shape;
  return ir::replica_samples(shape.micro_batches[micro_batch], static_cast<size_t>(replica),
                             shape.stages[stage.index()].devices.size());
}

ir::SampleRange Router::within_mini_batch(StageId stage, uint32_t micro_batch) const {
  int64_t before = 0;
  for (uint32_t i = 0; i < micro_batch; ++i) before += pipeline_.shape.micro_batches[i];
  return shifted(own(stage, micro_batch), before);
}

SampleAxis Router::axis_of(const Port& port) const {
  const ir::BatchLayout& layout = port.type.batch;
  if (!layout.has_batch()) return {};
  return {layout.axis, bound(layout.outer, input_->symbols), bound(layout.inner, input_->symbols)};
}

Result<TensorSpec> Router::spec_of(const Port& port, int64_t samples) const {
  TensorSpec spec{.dtype = port.type.dtype};
  ir::Bindings bindings = input_->symbols;
  if (!pipeline_.batch_symbol.empty()) bindings[pipeline_.batch_symbol] = samples;
  if (!port.type.shape) return error({.node = port.name}, "the plan does not say what shape this value has");
  for (const ir::Dim& dim : *port.type.shape) {
    const auto extent = dim.evaluate(bindings);
    if (!extent) return error({.node = port.name}, fmt::format("size `{}` has no value in this step", dim.str()));
    spec.shape.push_back(*extent);
  }
  return spec;
}

// Whether the consumer of a message is the first reader of its producer's replica.
bool Router::is_first_reader(uint32_t route, const ir::Message& message, uint32_t micro_batch) const {
  const ir::PipelineShape& shape = pipeline_.shape;
  const ir::StageShape& producer = shape.stages[shape.routes[route].producer.index()];
  return message.samples.first ==
         ir::replica_samples(shape.micro_batches[micro_batch], message.producer, producer.devices.size()).first;
}

Result<Value> Router::arrived(const Slot& slot) {
  if (slot.peer == device_) return mailbox_.take(slot);
  const auto receipt = mailbox_.arrival(slot);
  const int64_t start = now_ns();
  auto arrived = receipt->wait();
  waited_ns_ += now_ns() - start;
  if (!arrived.ok()) return arrived.diagnostic();
  if (arrived->ready == nullptr) return std::move(arrived->value);
  EventRef before = times_waits_ ? hardware().stamp(Stream::kCompute) : nullptr;
  hardware().await(Stream::kCompute, arrived->ready);
  if (times_waits_) waits_.emplace_back(std::move(before), hardware().stamp(Stream::kCompute));
  return std::move(arrived->value);
}

Result<Value> Router::gather(const Slot& slot, const Port& port, const std::vector<ir::Message>& messages) {
  Values parts;
  for (const ir::Message& message : messages) {
    Slot one = slot;
    one.peer = message.peer;
    RANNC_ASSIGN(Value part, arrived(one));
    parts.push_back(std::move(part));
  }
  RANNC_CHECK(!parts.empty()) << "a replica with samples has a peer for each";
  if (parts.size() == 1) return parts.front();
  if (port.type.batch.has_batch()) return parts.front()->joined(parts, axis_of(port));
  const bool added = slot.direction == Direction::kGradient || port.type.batch.is_partial();
  if (!added) return parts.front();  // every producer computed the same value
  Value total;
  for (const Value& part : parts) total = sum(total, part);
  return total;
}

Result<Values> Router::inputs(StageId stage, uint32_t micro_batch) {
  const Signature& own_signature = signature(stage);
  Values values(own_signature.inputs.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const Port& port = own_signature.inputs[i];
    if (!port.from_graph) continue;
    RANNC_ASSIGN(const Value fed, input_->feed->input(port, within_mini_batch(stage, micro_batch)));
    values[i] = hardware().upload(fed);
  }
  for (uint32_t route : dependencies_.routes_into(stage)) {
    std::vector<ir::Message> messages;
    dependencies_.each_incoming(route, micro_batch, device_, [&](const ir::Message& m) { messages.push_back(m); });
    const uint32_t index = pipeline_.routes[route].input;
    RANNC_ASSIGN(values[index],
                 gather({Direction::kActivation, route, micro_batch, {}}, own_signature.inputs[index], messages));
  }
  return values;
}

void Router::file_outputs(StageId stage, uint32_t micro_batch, const Values& outputs) {
  const ir::SampleRange mine = own(stage, micro_batch);
  for (uint32_t route : dependencies_.routes_from(stage)) {
    const uint32_t index = pipeline_.routes[route].output;
    const Port& port = signature(stage).outputs[index];
    const SampleAxis axis = axis_of(port);
    dependencies_.each_outgoing(route, micro_batch, device_, [&](const ir::Message& m) {
      const bool whole = !axis.present() || m.samples.size() == mine.size();
      Value part = whole ? outputs[index] : outputs[index]->samples(axis, shifted(m.samples, -mine.first));
      // A part of a sum must count once, so only its first reader gets it.
      if (port.type.batch.is_partial() && m.samples.first != mine.first) part = part->zeros();
      mailbox_.put({Direction::kActivation, route, micro_batch, m.peer}, std::move(part));
    });
  }
}

Result<Values> Router::output_gradients(StageId stage, uint32_t micro_batch) {
  const Signature& own_signature = signature(stage);
  Values gradients(own_signature.outputs.size());
  for (size_t term = 0; term < pipeline_.losses.size(); ++term) {
    const LossPort& loss = pipeline_.losses[term];
    if (loss.stage == stage) gradients[loss.output] = sum(gradients[loss.output], loss_seeds_[term]);
  }
  const std::span<const uint32_t> routes = dependencies_.routes_from(stage);
  for (size_t i = routes.size(); i-- > 0;) {  // per value, readers from the last stage to the first
    const uint32_t route = routes[i];
    if (!pipeline_.shape.routes[route].gradient) continue;
    std::vector<ir::Message> messages;
    dependencies_.each_outgoing(route, micro_batch, device_, [&](const ir::Message& m) { messages.push_back(m); });
    const uint32_t index = pipeline_.routes[route].output;
    RANNC_ASSIGN(const Value gradient,
                 gather({Direction::kGradient, route, micro_batch, {}}, own_signature.outputs[index], messages));
    gradients[index] = sum(gradients[index], gradient);
  }
  return gradients;
}

void Router::file_input_gradients(StageId stage, uint32_t micro_batch, const Values& gradients) {
  const ir::SampleRange mine = own(stage, micro_batch);
  for (uint32_t route : dependencies_.routes_into(stage)) {
    if (!pipeline_.shape.routes[route].gradient) continue;
    const uint32_t index = pipeline_.routes[route].input;
    const Port& port = signature(stage).inputs[index];
    const SampleAxis axis = axis_of(port);
    RANNC_CHECK(gradients[index] != nullptr) << "a program returns a gradient for each input that has one";
    bool first = true;
    dependencies_.each_incoming(route, micro_batch, device_, [&](const ir::Message& m) {
      Value part = gradients[index];
      if (axis.present() && m.samples.size() != mine.size())
        part = part->samples(axis, shifted(m.samples, -mine.first));
      // The gradient of a value without samples must count once, so one of the producing replicas gets it. For a sum,
      // each replica whose part was added here gets it.
      const bool counts = port.type.batch.is_partial() ? is_first_reader(route, m, micro_batch) : first;
      if (!axis.present() && !counts) part = part->zeros();
      first = false;
      mailbox_.put({Direction::kGradient, route, micro_batch, m.peer}, std::move(part));
    });
  }
}

Result<void> Router::send(const ir::Action& action) {
  const auto direction = ir::is_activation(action.kind) ? Direction::kActivation : Direction::kGradient;
  const Slot slot{direction, action.route, action.micro_batch, action.peer};
  // Only a training step awaits its sends at the positions that a plan counts with.
  const SentValue sent = input_->training ? SentValue::kHeldUntilAwaited : SentValue::kFreedWhenTaken;
  return transport_.send(key(slot), action.peer, mailbox_.take(slot), sent);
}

Result<void> Router::receive(const ir::Action& action) {
  const bool activation = ir::is_activation(action.kind);
  const Slot slot{activation ? Direction::kActivation : Direction::kGradient, action.route, action.micro_batch,
                  action.peer};
  const RoutePorts& ports = pipeline_.routes[action.route];
  const Port& port = activation ? signature(pipeline_.shape.routes[action.route].consumer).inputs[ports.input]
                                : signature(pipeline_.shape.routes[action.route].producer).outputs[ports.output];
  int64_t samples = 0;
  dependencies_.each_message(device_, action, [&](const ir::Message& m) { samples += m.samples.size(); });
  RANNC_ASSIGN(const TensorSpec spec, spec_of(port, samples));
  RANNC_ASSIGN(auto receipt, transport_.receive(key(slot), action.peer, spec));
  mailbox_.expect(slot, std::move(receipt));
  return {};
}

}  // namespace rannc::runtime
