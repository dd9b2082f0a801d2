// Declares as much of Gloo's context as c10d's public header names; the definitions are inside libtorch_cpu.
#pragma once

#include <chrono>

namespace gloo {
namespace transport {
class Device;
class UnboundBuffer;
}  // namespace transport

/// One group's connections. Created, owned and destroyed by LibTorch only.
class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
