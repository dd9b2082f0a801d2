/// Typed ids shared by every folder.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <limits>

namespace rannc {

/// A dense index that cannot be mixed up with an index of another kind.
/// Default-constructed ids are invalid. `index()` of an invalid id is meaningless.
template <class Tag>
class Id {
 public:
  using Index = uint32_t;
  constexpr Id() = default;
  constexpr explicit Id(Index index) : index_(index) {}
  static constexpr Id from(size_t index) { return Id(static_cast<Index>(index)); }

  constexpr Index index() const { return index_; }
  constexpr bool valid() const { return index_ != kInvalid; }
  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  static constexpr Index kInvalid = std::numeric_limits<Index>::max();
  Index index_ = kInvalid;
};

using TaskId = Id<struct TaskTag>;      ///< one operator application of a graph
using ValueId = Id<struct ValueTag>;    ///< one tensor of a graph
using AtomId = Id<struct AtomTag>;      ///< atomic subcomponent (RaNNC III.A)
using BlockId = Id<struct BlockTag>;    ///< group of atoms (RaNNC III.B)
using StageId = Id<struct StageTag>;    ///< pipeline stage (RaNNC III.C)
using DeviceId = Id<struct DeviceTag>;  ///< device of a cluster
using NodeId = Id<struct NodeTag>;      ///< machine of a cluster

}  // namespace rannc

template <class Tag>
struct std::hash<rannc::Id<Tag>> {
  size_t operator()(rannc::Id<Tag> id) const noexcept { return std::hash<uint32_t>{}(id.index()); }
};
