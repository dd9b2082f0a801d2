#include "frontend/onnx/internal/cut/assign_stages.h"

#include <algorithm>

#include "ir/base/cut_network.h"

namespace rannc::frontend {

namespace {

constexpr uint32_t kSource = 0, kSink = 1;

enum class Side : uint8_t { kOpen, kEarlier, kLater };

/// One boundary between stages: which nodes are before it.
class Boundary {
 public:
  Boundary(const CutGraph& graph, const NodeTasks& tasks, uint32_t first_later, const TensorTypes& types)
      : graph_(graph), types_(types), sides_(graph.nodes().size()), earlier_(sides_.size()), later_(sides_.size()) {
    for (size_t node = 0; node < tasks.size(); ++node) {
      for (const uint32_t stage : tasks[node]) ++(stage < first_later ? earlier_ : later_)[node];
    }
  }

  std::vector<bool> before() {
    settle();
    cut();
    std::vector<bool> before;
    for (const Side side : sides_) before.push_back(side == Side::kEarlier);
    return before;
  }

 private:
  bool takes_part(uint32_t node) const { return graph_.nodes()[node].needed && !graph_.nodes()[node].repeated; }

  template <class Visit>
  void each_maker(uint32_t node, Visit&& visit) const {
    for (const uint32_t tensor : graph_.nodes()[node].reads) {
      const uint32_t maker = graph_.tensors()[tensor].maker;
      if (maker != CutGraph::kNone && takes_part(maker)) visit(maker);
    }
  }

  /// A node is earlier if one that depends on it, or itself, has a task in an earlier stage and nothing before that one
  /// has a task in a later stage. Likewise later ones.
  void settle() {
    const auto count = static_cast<uint32_t>(sides_.size());
    std::vector<bool> behind_later(count), before_earlier(count);
    for (uint32_t node = 0; node < count; ++node) {
      bool later = later_[node] > 0;
      each_maker(node, [&](uint32_t maker) { later = later || behind_later[maker]; });
      behind_later[node] = later;
    }
    for (uint32_t node = count; node-- > 0;) {
      if (!takes_part(node)) continue;
      before_earlier[node] = before_earlier[node] || earlier_[node] > 0;
      if (earlier_[node] > 0 && !behind_later[node]) sides_[node] = Side::kEarlier;
      each_maker(node, [&](uint32_t maker) {
        if (before_earlier[node]) before_earlier[maker] = true;
        if (sides_[node] == Side::kEarlier) sides_[maker] = Side::kEarlier;
      });
    }
    for (uint32_t node = 0; node < count; ++node) {
      if (!takes_part(node)) continue;
      if (later_[node] > 0 && !before_earlier[node]) sides_[node] = Side::kLater;
      each_maker(node, [&](uint32_t maker) {
        if (sides_[maker] == Side::kLater) sides_[node] = Side::kLater;
      });
    }
  }

  /// Decides the open nodes.
  void cut() {
    std::vector<uint32_t> place(sides_.size(), CutGraph::kNone);
    uint32_t places = 2;
    for (uint32_t node = 0; node < sides_.size(); ++node) {
      if (!takes_part(node)) continue;
      place[node] = sides_[node] == Side::kEarlier ? kSource : sides_[node] == Side::kLater ? kSink : places++;
    }
    if (places == 2) return;
    ir::CutNetwork network(places);
    connect(place, network);
    const std::vector<bool> source = network.smallest_side(kSource, kSink, ir::CutNetwork::Tie::kFewestBySource);
    for (uint32_t node = 0; node < sides_.size(); ++node) {
      if (place[node] > kSink && place[node] != CutGraph::kNone)
        sides_[node] = source[place[node]] ? Side::kEarlier : Side::kLater;
    }
  }

  /// A sent tensor costs its bytes, a task on the wrong side more than all bytes, and a reader before its maker more
  /// than all of that.
  void connect(const std::vector<uint32_t>& place, ir::CutNetwork& network) const {
    const std::vector<uint32_t> tensors = open_tensors();
    int64_t task = 1;
    for (const uint32_t tensor : tensors) task += types_.bytes(graph_.tensors()[tensor].name);
    const int64_t never = task * (1 + open_tasks());
    for (const uint32_t tensor : tensors) {
      const CutGraph::Tensor& each = graph_.tensors()[tensor];
      const uint32_t sent = network.add_node();
      network.connect(place[each.maker], sent, types_.bytes(each.name));
      for (const uint32_t reader : each.readers) {
        network.connect(sent, place[reader], never);
        network.connect(place[reader], place[each.maker], never);
      }
    }
    for (uint32_t node = 0; node < sides_.size(); ++node) {
      if (place[node] == CutGraph::kNone || place[node] <= kSink) continue;
      network.connect(kSource, place[node], task * earlier_[node]);
      network.connect(place[node], kSink, task * later_[node]);
    }
  }

  int64_t open_tasks() const {
    int64_t count = 0;
    for (size_t node = 0; node < sides_.size(); ++node) {
      if (sides_[node] == Side::kOpen) count += earlier_[node] + later_[node];
    }
    return count;
  }

  /// Tensors that an open node makes or reads.
  std::vector<uint32_t> open_tensors() const {
    std::vector<uint32_t> found;
    for (uint32_t i = 0; i < graph_.tensors().size(); ++i) {
      const CutGraph::Tensor& tensor = graph_.tensors()[i];
      if (tensor.maker == CutGraph::kNone || !takes_part(tensor.maker)) continue;
      const auto is_open = [&](uint32_t node) { return sides_[node] == Side::kOpen; };
      if (is_open(tensor.maker) || std::any_of(tensor.readers.begin(), tensor.readers.end(), is_open))
        found.push_back(i);
    }
    return found;
  }

  const CutGraph& graph_;
  const TensorTypes& types_;
  std::vector<Side> sides_;
  std::vector<uint32_t> earlier_, later_;  ///< tasks by node
};

}  // namespace

std::vector<uint32_t> assign_stages(const CutGraph& graph, const NodeTasks& tasks, uint32_t stages,
                                    const TensorTypes& types) {
  std::vector<uint32_t> stage_of(graph.nodes().size(), CutGraph::kNone);
  for (size_t node = 0; node < stage_of.size(); ++node) {
    if (graph.nodes()[node].needed && !graph.nodes()[node].repeated) stage_of[node] = 0;
  }
  for (uint32_t stage = 1; stage < stages; ++stage) {
    const std::vector<bool> before = Boundary(graph, tasks, stage, types).before();
    for (size_t node = 0; node < stage_of.size(); ++node) {
      if (stage_of[node] != CutGraph::kNone && !before[node]) ++stage_of[node];
    }
  }
  return stage_of;
}

}  // namespace rannc::frontend
