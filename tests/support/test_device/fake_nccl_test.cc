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
    limit_fake_nccl({});
    ASSERT_EQ(nccl_.get_unique_id(&id_), NcclResult::kSuccess);
    for (int rank = 0; rank < 2; ++rank) {
      streams_.push_back(test_device_guard().getNewStream(test_device(static_cast<c10::DeviceIndex>(rank)), 0));
    }
  }
  void TearDown() override {
    for (NcclComm comm : comms_) {
      if (comm != nullptr) nccl_.abort(comm);
    }
    limit_fake_nccl({});
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

/// Two communicators of the same ranks, on streams of their own.
class FakeNcclKernels : public FakeNccl {
 protected:
  void SetUp() override {
    FakeNccl::SetUp();
    make_both();
    into_.push_back(ones(1));
    from_.push_back(ones(0));
    std::swap(comms_, first_);
    std::swap(streams_, first_streams_);
    for (int rank = 0; rank < 2; ++rank)
      streams_.push_back(test_device_guard().getNewStream(test_device(static_cast<c10::DeviceIndex>(rank)), 0));
    ASSERT_EQ(nccl_.get_unique_id(&id_), NcclResult::kSuccess);
    make_both();
    into_.push_back(ones(1));
    from_.push_back(ones(0));
    for (const size_t k : {0, 1}) {  // connects
      send_over(k);
      receive_over(k);
      for (int rank = 0; rank < 2; ++rank) settle(k, rank);
    }
  }
  void TearDown() override {
    for (NcclComm comm : first_) nccl_.abort(comm);
    FakeNccl::TearDown();
  }
  NcclComm comm_of(size_t k, size_t rank) const { return k == 0 ? first_[rank] : comms_[rank]; }
  const c10::Stream& stream_of(size_t k, size_t rank) const { return k == 0 ? first_streams_[rank] : streams_[rank]; }
  void settle(size_t k, int rank) {
    NcclResult state = NcclResult::kInProgress;
    for (int i = 0; i < 10 && state == NcclResult::kInProgress; ++i)
      nccl_.async_error(comm_of(k, static_cast<size_t>(rank)), &state);
    EXPECT_EQ(state, NcclResult::kSuccess);
  }
  void send_over(size_t k) {
    const c10::StreamGuard on(stream_of(k, 0));
    EXPECT_EQ(nccl_.send(from_[k].data_ptr(), from_[k].nbytes(), 1, comm_of(k, 0)), NcclResult::kInProgress);
    if (connected_) settle(k, 0);
  }
  void receive_over(size_t k) {
    const c10::StreamGuard on(stream_of(k, 1));
    EXPECT_EQ(nccl_.receive(into_[k].data_ptr(), into_[k].nbytes(), 0, comm_of(k, 1)), NcclResult::kInProgress);
    if (connected_) settle(k, 1);
  }
  bool is_done(size_t k, size_t rank) const { return test_device_guard().queryStream(stream_of(k, rank)); }

  bool connected_ = false;
  std::array<NcclComm, 2> first_{};
  std::vector<c10::Stream> first_streams_;
  std::vector<at::Tensor> into_, from_;
};

TEST_F(FakeNcclKernels, WaitForRoom) {
  connected_ = true;
  limit_fake_nccl({.resident = 1, .launch_order = false});
  receive_over(0);
  receive_over(1);
  send_over(1);
  EXPECT_FALSE(is_done(1, 1)) << "the other receive has the room";
  send_over(0);
  EXPECT_FALSE(is_done(0, 1)) << "the sender has no room either";
  limit_fake_nccl({});
}

TEST_F(FakeNcclKernels, StartInTheOrderOfCalls) {
  connected_ = true;
  for (const bool launch_order : {true, false}) {
    limit_fake_nccl({.launch_order = launch_order});
    receive_over(0);
    receive_over(0);  // waits for the first one on the same stream
    receive_over(1);
    send_over(1);
    EXPECT_EQ(is_done(1, 1), !launch_order);
    send_over(0);
    send_over(0);
    EXPECT_TRUE(is_done(0, 1) && is_done(1, 1));
  }
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
