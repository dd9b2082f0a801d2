/// An endpoint that forwards all calls, for tests that change some of them.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/transport/transport.h"

namespace rannc::testing {

class ForwardingTransport : public runtime::Transport {
 public:
  explicit ForwardingTransport(std::unique_ptr<runtime::Transport> inner) : inner_(std::move(inner)) {}

  DeviceId device() const override { return inner_->device(); }
  runtime::Device& hardware() const override { return inner_->hardware(); }
  uint32_t devices() const override { return inner_->devices(); }
  Result<void> send(const runtime::MessageKey& key, DeviceId to, runtime::Value value,
                    runtime::SentValue sent) override {
    return inner_->send(key, to, std::move(value), sent);
  }
  Result<std::unique_ptr<runtime::Receipt>> receive(const runtime::MessageKey& key, DeviceId from,
                                                    const runtime::TensorSpec& spec) override {
    return inner_->receive(key, from, spec);
  }
  Result<runtime::Values> all_reduce(const runtime::CollectiveKey& key, std::span<const DeviceId> members,
                                     runtime::Values values) override {
    return inner_->all_reduce(key, members, std::move(values));
  }
  Result<std::unique_ptr<runtime::PendingSum>> begin_all_reduce(const runtime::CollectiveKey& key,
                                                                std::span<const DeviceId> members,
                                                                runtime::Values values) override {
    return inner_->begin_all_reduce(key, members, std::move(values));
  }
  Result<std::unique_ptr<runtime::PendingSum>> begin_reduce_scatter(const runtime::CollectiveKey& key,
                                                                    std::span<const DeviceId> members,
                                                                    std::vector<runtime::Values> terms) override {
    return inner_->begin_reduce_scatter(key, members, std::move(terms));
  }
  Result<void> all_gather(const runtime::CollectiveKey& key, std::span<const DeviceId> members,
                          const std::vector<runtime::Values>& parts) override {
    return inner_->all_gather(key, members, parts);
  }
  Result<void> await_sends(DeviceId to, size_t left) override { return inner_->await_sends(to, left); }
  Result<void> flush() override { return inner_->flush(); }
  runtime::SentByPeer sent_bytes() const override { return inner_->sent_bytes(); }
  void abort(const Diagnostic& reason) override { inner_->abort(reason); }
  std::optional<Diagnostic> failure() const override { return inner_->failure(); }

 protected:
  runtime::Transport& inner() { return *inner_; }

 private:
  std::unique_ptr<runtime::Transport> inner_;
};

}  // namespace rannc::testing
