// Derivation of send completion from the rows of a device's peers.
#include "ir/schedule/send_completion.h"

#include <algorithm>
#include <tuple>

namespace rannc::ir {

namespace {

using MessageName = std::tuple<bool, uint32_t, uint32_t>;  // of an activation, route, micro-batch

// Receives that a peer has posted when one of its messages arrives, and after a further recomputation, which never
// waits.
struct Posted {
  uint32_t at_once = 0, soon = 0;
};

// Messages in a peer's row that it exchanges with one device.
class PeerRow {
 public:
  PeerRow(const std::vector<Action>& row, DeviceId device) {
    uint32_t posted = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      const bool here = row[i].peer == device;
      posted += is_receive(row[i].kind) && here ? 1 : 0;
      if (!is_send(row[i].kind) || !here) continue;
      posted_.emplace(MessageName(is_activation(row[i].kind), row[i].route, row[i].micro_batch),
                      behind(row, i, device, posted));
    }
  }
  Posted with(const MessageName& name) const {
    const auto found = posted_.find(name);
    return found == posted_.end() ? Posted() : found->second;
  }

 private:
  static Posted behind(const std::vector<Action>& row, size_t send, DeviceId device, uint32_t before) {
    Posted posted{before, before};
    bool recomputes = false;
    for (size_t i = send + 1; i < row.size(); ++i) {
      const bool rebuilds = has_pass(row[i].kind, Pass::kRebuild);
      recomputes = recomputes || rebuilds;
      if (!is_receive(row[i].kind) && !rebuilds) break;
      if (rebuilds || row[i].peer != device) continue;
      ++posted.soon;
      if (!recomputes) ++posted.at_once;
    }
    return posted;
  }

  std::map<MessageName, Posted> posted_;
};

}  // namespace

SendCompletion::SendCompletion(const Dependencies& dependencies, const Schedule& schedule, DeviceId device) {
  std::map<DeviceId, PeerRow> peers;
  std::map<DeviceId, uint32_t> sent, waited, soon;
  const auto& row = schedule.rows[device.index()];
  waits_.resize(row.size());
  for (size_t at = 0; at < row.size(); ++at) {
    if (is_send(row[at].kind)) ++sent[row[at].peer];
    if (!is_compute(row[at].kind)) continue;
    std::map<DeviceId, uint32_t> requested = soon;  // since the computation before this one
    dependencies.each_producer(device, row[at], [&](const Message& m, const Action& needed) {
      if (m.peer == device) return;
      const auto peer = peers.try_emplace(m.peer, schedule.rows[m.peer.index()], device).first;
      const Posted posted = peer->second.with({is_forward(needed.kind), m.route, row[at].micro_batch});
      requested[m.peer] = std::max(requested[m.peer], posted.at_once);
      soon[m.peer] = std::max(soon[m.peer], posted.soon);
    });
    for (const auto& [peer, receives] : requested) {
      const uint32_t sends = std::min(receives, sent[peer]);
      if (sends <= waited[peer]) continue;
      waits_[at].push_back({peer, sent[peer] - sends});
      waited[peer] = sends;
    }
  }
}

}  // namespace rannc::ir
