// A search ends on request or at its time limit, and the reason is reported.
#include "tools/compiler/search_limit.h"

#include <gmock/gmock.h>

#include <condition_variable>
#include <mutex>

namespace rannc::tools {
namespace {

using testing::StartsWith;

/// Waits until `token` requests a stop.
void wait_for(const std::stop_token& token) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait(lock, token, [] { return false; });
}

TEST(SearchLimit, WithoutLimitNothingStops) {
  SearchLimit search({}, {});
  EXPECT_FALSE(search.stopped());
  EXPECT_EQ(search.end(), "");
  EXPECT_EQ(search.seconds(), search.seconds()) << "the time of a finished search stands still";
}

TEST(SearchLimit, TheCallerStops) {
  std::stop_source caller;
  SearchLimit search({}, caller.get_token());
  EXPECT_FALSE(search.token().stop_requested());
  caller.request_stop();
  EXPECT_TRUE(search.token().stop_requested());
  EXPECT_THAT(search.end(), StartsWith("the search was interrupted after"));
}

TEST(SearchLimit, ARequestBeforeTheSearchCounts) {
  std::stop_source caller;
  caller.request_stop();
  EXPECT_TRUE(SearchLimit({}, caller.get_token()).stopped());
}

TEST(SearchLimit, TheLimitStops) {
  SearchLimit search(1e6, {});
  wait_for(search.token());
  EXPECT_THAT(search.end(), StartsWith("the search was stopped after 1.00 ms (--time-limit)"));
}

TEST(SearchLimit, ASearchThatFinishesInTimeMayDependOnTheLimit) {
  SearchLimit search(1e30, {});
  EXPECT_THAT(search.end(), StartsWith("results may depend on --time-limit"));
  EXPECT_FALSE(search.stopped());
}

}  // namespace
}  // namespace rannc::tools
