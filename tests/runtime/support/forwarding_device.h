/// A device that passes all calls to another one, for tests that change some of them.
#pragma once

#include <memory>
#include <utility>

#include "runtime/device/device.h"

namespace rannc::testing {

class ForwardingDevice : public runtime::Device {
 public:
  explicit ForwardingDevice(std::unique_ptr<runtime::Device> device) : device_(std::move(device)) {}

  ir::DeviceType type() const override { return device_->type(); }
  bool has_flash_attention() const override { return device_->has_flash_attention(); }
  std::string address() const override { return device_->address(); }
  std::string model() const override { return device_->model(); }
  uint64_t memory_bytes() const override { return device_->memory_bytes(); }
  uint64_t clock_khz() const override { return device_->clock_khz(); }
  bool is_asynchronous() const override { return device_->is_asynchronous(); }
  std::unique_ptr<runtime::StreamScope> enter(runtime::Stream stream) override { return device_->enter(stream); }
  runtime::EventRef record(runtime::Stream stream) override { return device_->record(stream); }
  runtime::EventRef stamp(runtime::Stream stream) override { return device_->stamp(stream); }
  void await(runtime::Stream stream, const runtime::EventRef& event) override { device_->await(stream, event); }
  bool is_reached(const runtime::EventRef& event) const override { return device_->is_reached(event); }
  void synchronize(const runtime::EventRef& event) override { device_->synchronize(event); }
  void synchronize() override { device_->synchronize(); }
  void mark(uint64_t number) override { device_->mark(number); }
  uint64_t marked() const override { return device_->marked(); }
  int64_t ns_between(const runtime::EventRef& from, const runtime::EventRef& to) const override {
    return device_->ns_between(from, to);
  }
  runtime::Value allocate(const runtime::TensorSpec& spec) override { return device_->allocate(spec); }
  runtime::EventRef copy(runtime::Stream stream, const runtime::Value& from, const runtime::Value& to,
                         std::span<const runtime::EventRef> after) override {
    return device_->copy(stream, from, to, after);
  }
  runtime::Value pinned(const runtime::Value& value) override { return device_->pinned(value); }
  runtime::Value stage(const runtime::Value& value) override { return device_->stage(value); }
  void drop_staged() override { device_->drop_staged(); }
  runtime::Value upload(const runtime::Value& value) override { return device_->upload(value); }
  runtime::Value download(const runtime::Value& value) override { return device_->download(value); }
  runtime::Value fetch(const runtime::Value& value) override { return device_->fetch(value); }
  void fill(const runtime::DeviceRandom& draw) override { device_->fill(draw); }
  bool update(const runtime::DeviceUpdate& update) override { return device_->update(update); }
  std::unique_ptr<runtime::RecordedWork> capture(const std::function<void()>& work, uint64_t pool) override {
    return device_->capture(work, pool);
  }
  const runtime::NcclTable* nccl() const override { return device_->nccl(); }
  void give_back_memory() override { device_->give_back_memory(); }
  uint64_t live_bytes() const override { return device_->live_bytes(); }
  uint64_t peak_bytes() const override { return device_->peak_bytes(); }
  void restart_peak() override { device_->restart_peak(); }

 protected:
  runtime::Device& target() const { return *device_; }

 private:
  std::unique_ptr<runtime::Device> device_;
};

}  // namespace rannc::testing
