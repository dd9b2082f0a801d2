// The fake NCCL behaves as NCCL does, and finds missing waits for messages.
#include "tests/support/test_device/fake_nccl.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/support/test_device/guard.h"
#include "tests/support/test_device/test_device.h"

namespace rannc::testing {
namespace {

using runtime::NcclComm;
using runtime::NcclId;
using runtime::NcclResult;

/// Two ranks, on a stream each of two devices.
class FakeNccl : public ::testing::Test {
 protected:
  void SetUp() override {
    reset_test_device();
    ASSERT_EQ(nccl_.get_unique_id(&id_), NcclResult::kSuccess);
    for (int rank = 0; rank < 2; ++rank) {
      streams_.push_back(test_device_guard().getNewStream(test_device(static_cast<c10::DeviceIndex>(rank)), 0));
    }
  }
  void TearDown() override {
    for (NcclComm comm : comms_) {
      if (comm != nullptr) nccl_.abort(comm);
    }
    EXPECT_EQ(take_race(), std::nullopt);
  }

  void make_both() {
    for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(make(rank), NcclResult::kInProgress);
    for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(settled(rank), NcclResult::kSuccess);
  }
  NcclResult make(int rank) { return nccl_.init_rank(&comm(rank), 2, &id_, rank); }

  /// The state once it does not change any more.
  NcclResult settled(int rank) {
    NcclResult state = NcclResult::kInProgress;
    for (int i = 0; i < 10 && state == NcclResult::kInProgress; ++i) nccl_.async_error(comm(rank), &state);
    return state;
  }

  NcclResult send(const at::Tensor& from) {
    const c10::StreamGuard on(streams_[0]);
    return nccl_.send(from.data_ptr(), from.nbytes(), 1, comm(0));
  }
  NcclResult receive(const at::Tensor& into) {
    const c10::StreamGuard on(streams_[1]);
    return nccl_.receive(into.data_ptr(), into.nbytes(), 0, comm(1));
  }
  at::Tensor ones(int rank) {
    const c10::StreamGuard on(streams_[static_cast<size_t>(rank)]);
    return at::ones({4}, at::TensorOptions(test_device(static_cast<c10::DeviceIndex>(rank))));
  }
  /// The end of the work on a rank's stream.
  c10::Event end_of(int rank) {
    c10::Event event(c10::kPrivateUse1);
    event.record(streams_[static_cast<size_t>(rank)]);
    return event;
  }
  NcclComm& comm(int rank) { return comms_.at(static_cast<size_t>(rank)); }

  const runtime::NcclTable& nccl_ = fake_nccl();
  NcclId id_;
  std::array<NcclComm, 2> comms_{};
  std::vector<c10::Stream> streams_;
};

TEST_F(FakeNccl, IsInProgressUntilAllRanksHaveJoined) {
  EXPECT_EQ(make(0), NcclResult::kInProgress);
  EXPECT_EQ(settled(0), NcclResult::kInProgress);
  EXPECT_EQ(make(1), NcclResult::kInProgress);
  EXPECT_EQ(settled(0), NcclResult::kSuccess);
}

TEST_F(FakeNccl, ConnectsAtTheFirstMessageOfBothRanks) {
  make_both();
  const at::Tensor from = ones(0), into = ones(1);
  EXPECT_EQ(send(from), NcclResult::kInProgress);
  EXPECT_EQ(settled(0), NcclResult::kInProgress);
  EXPECT_EQ(send(from), NcclResult::kInvalidArgument);
  EXPECT_EQ(receive(into), NcclResult::kInProgress);
  EXPECT_EQ(settled(0), NcclResult::kSuccess);
  EXPECT_EQ(send(from), NcclResult::kInProgress);  // the later ones do not wait for the peer
  EXPECT_EQ(settled(0), NcclResult::kSuccess);
}

TEST_F(FakeNccl, AMessageIsReadAfterItsEvent) {
  make_both();
  const at::Tensor from = ones(0), into = ones(1);
  {
    const c10::StreamGuard on(streams_[0]);
    from.add_(2);
  }
  receive(into);
  const c10::Event done = end_of(1);
  EXPECT_FALSE(done.query());
  send(from);
  const c10::Stream other = test_device_guard().getNewStream(test_device(1), 0);
  const c10::StreamGuard on(other);
  EXPECT_THROW(into + 1, c10::Error);
  done.block(other);
  EXPECT_TRUE(at::equal((into + 1).cpu(), at::full({4}, 4.F)));  // the host has waited
  EXPECT_TRUE(done.query());
}

TEST_F(FakeNccl, MemoryOfASendIsKeptUntilItsEvent) {
  make_both();
  const at::Tensor from = ones(0), into = ones(1);
  const c10::Stream other = test_device_guard().getNewStream(test_device(0), 0);
  const c10::Event made = end_of(0);
  send(from);
  receive(into);
  const c10::StreamGuard on(other);
  made.block(other);
  EXPECT_THROW(from.add_(1), c10::Error);
  end_of(0).block(other);
  from.add_(1);
  test_device_guard().synchronizeStream(other);
}

TEST_F(FakeNccl, AnAbortEndsItsOwnMessages) {
  make_both();
  const at::Tensor into = ones(1);
  receive(into);
  const c10::Event done = end_of(1);
  nccl_.abort(std::exchange(comm(0), nullptr));
  EXPECT_FALSE(done.query());
  nccl_.abort(std::exchange(comm(1), nullptr));
  EXPECT_TRUE(done.query());
}

TEST_F(FakeNccl, SizesMustAgree) {
  make_both();
  const at::Tensor from = ones(0), into = ones(1);
  receive(into);
  send(from.slice(0, 0, 2));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(settled(rank), NcclResult::kInvalidUsage);
    EXPECT_STREQ(nccl_.last_error(comm(rank)), "a message of 8 bytes was received as 16 bytes");
  }
}

}  // namespace
}  // namespace rannc::testing
