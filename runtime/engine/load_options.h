/// How engines load programs.
#pragma once

#include "runtime/engine/nonfinite_observer.h"
#include "runtime/engine/operator_origin.h"

namespace rannc::runtime {

struct LoadOptions {
  LoadOptions(Origins kept = Origins::kForgotten, NonfiniteObserver* observer = nullptr)
      : origins(kept), nonfinite(observer) {}
  Origins origins;
  NonfiniteObserver* nonfinite;  ///< examines every result if it is not null; not owned
};

}  // namespace rannc::runtime
