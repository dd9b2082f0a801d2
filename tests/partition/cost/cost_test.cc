// Cost models and the profile database.
#include <gtest/gtest.h>

#include <random>

#include "partition/cost/analytic.h"
#include "partition/cost/exchange_table.h"
#include "partition/cost/profile_database.h"
#include "tests/partition/cost/table.h"

namespace rannc::partition {
namespace {

const DeviceKind kDevice{"d", 1 << 30, 1e12, 1e11, 500};

TEST(AnalyticCosts, TakeTheLargerOfWorkAndTraffic) {
  const auto model = analytic_costs();
  TaskFacts facts{"k", "matmul", 2e9, 1e6, 4096, 1000, true};
  const TaskCost compute = model->price(facts, 1, kDevice).value();
  EXPECT_DOUBLE_EQ(compute.forward_ns, 2e6 + 500);
  EXPECT_DOUBLE_EQ(compute.input_gradient_ns, 2e6 + 500);
  EXPECT_DOUBLE_EQ(compute.weight_gradient_ns, 2e6 + 3 * 4096 * 1e9 / 1e11 + 500);  // and the sum of gradients
  facts.traffic_bytes = 1e9;
  facts.parameter_bytes = 0;
  const TaskCost traffic = model->price(facts, 1, kDevice).value();
  EXPECT_DOUBLE_EQ(traffic.forward_ns, 1e7 + 500);
  EXPECT_DOUBLE_EQ(traffic.weight_gradient_ns, 0);
}

TEST(AnalyticCosts, TakeTheRateOfTheElementType) {
  DeviceKind gpu = kDevice;
  gpu.flops_per_second.bf16 = 4e12;
  gpu.flops_per_second.tf32 = 2e12;
  gpu.flops_per_second.f64 = 5e11;
  TaskFacts facts{"k", "matmul", 2e9, 1e6, 0, 1000, true};
  const auto forward_ns = [&](ir::DType dtype, Tf32 products) {
    facts.dtype = dtype;
    return analytic_costs({.products = products})->price(facts, 1, gpu)->forward_ns;
  };
  EXPECT_DOUBLE_EQ(forward_ns(ir::DType::kF32, Tf32::kNever), 2e6 + 500);
  EXPECT_DOUBLE_EQ(forward_ns(ir::DType::kF32, Tf32::kAllowed), 1e6 + 500);
  EXPECT_DOUBLE_EQ(forward_ns(ir::DType::kBF16, Tf32::kNever), 5e5 + 500);
  EXPECT_DOUBLE_EQ(forward_ns(ir::DType::kF64, Tf32::kAllowed), 4e6 + 500);
  EXPECT_DOUBLE_EQ(forward_ns(ir::DType::kF16, Tf32::kNever), 2e6 + 500);
}

DeviceKind gpu_of_tiles() {
  DeviceKind gpu = kDevice;
  gpu.type = ir::DeviceType::kCuda;
  gpu.launch_ns = 0;
  gpu.bytes_per_second = 1e30;
  gpu.kernels.multiprocessors = 100;  // 1e10 operations per second each
  return gpu;
}

/// The nanoseconds of the forward pass of a product [rows, depth] x [depth, columns].
double product_ns(double rows, double columns, double depth, ir::DType dtype = ir::DType::kF32,
                  Tf32 products = Tf32::kNever) {
  TaskFacts facts{"k", "matmul", 2 * rows * columns * depth};
  facts.family = KernelFamily::kProduct;
  facts.dtype = dtype;
  facts.results = rows * columns;
  return analytic_costs({.products = products})->price(facts, 1, gpu_of_tiles())->forward_ns;
}

TEST(AnalyticCosts, ComputeProductsInRoundsOfTiles) {
  const double round = 2 * 64 * 64 * 256 / 1e10 * 1e9;
  EXPECT_DOUBLE_EQ(product_ns(640, 640, 256), round);  // 100 tiles
  EXPECT_DOUBLE_EQ(product_ns(640, 704, 256), 2 * round);
  EXPECT_DOUBLE_EQ(product_ns(64, 64, 256), round);
  EXPECT_DOUBLE_EQ(product_ns(1, 1, 256), round);  // one tile, mostly empty
  EXPECT_DOUBLE_EQ(product_ns(1280, 1280, 256, ir::DType::kBF16), 4 * round);
  EXPECT_DOUBLE_EQ(product_ns(1280, 1280, 256, ir::DType::kF32, Tf32::kAllowed), 4 * round);
  EXPECT_DOUBLE_EQ(product_ns(1280, 1280, 256, ir::DType::kF64), 4 * round);  // 400 tiles in four rounds
}

TEST(AnalyticCosts, SplitLongProductsOfFewTiles) {
  const double round = 2 * 64 * 64 * 512 / 1e10 * 1e9;
  EXPECT_DOUBLE_EQ(product_ns(64, 64, 512), round);
  EXPECT_DOUBLE_EQ(product_ns(64, 64, 1023), round * 1023 / 512);  // parts are at least 512 long
  EXPECT_DOUBLE_EQ(product_ns(64, 64, 51200), round);
  EXPECT_DOUBLE_EQ(product_ns(64, 64, 102400), 2 * round);   // no more parts than multiprocessors
  EXPECT_DOUBLE_EQ(product_ns(640, 384, 5120), 10 * round);  // 60 tiles leave no room for two parts each
}

TEST(AnalyticCosts, WeightGradientsHaveTilesOfTheirOwn) {
  TaskFacts facts{"k", "linear", 2. * 64 * 64 * 51200, 0, 4 * 64 * 64};
  facts.family = KernelFamily::kProduct;
  facts.results = 51200 * 64;
  const TaskCost cost = analytic_costs()->price(facts, 1, gpu_of_tiles()).value();
  EXPECT_DOUBLE_EQ(cost.forward_ns, 8 * (2 * 64 * 64 * 64 / 1e10 * 1e9));  // 800 tiles
  EXPECT_NEAR(cost.weight_gradient_ns, 2 * 64 * 64 * 512 / 1e10 * 1e9, 1e-3);
}

TEST(AnalyticCosts, ViewsRunNoKernelOnAGpu) {
  const TaskFacts view{"k", "reshape"};
  EXPECT_DOUBLE_EQ(analytic_costs()->price(view, 1, kDevice)->forward_ns, 500);
  DeviceKind gpu = kDevice;
  gpu.type = ir::DeviceType::kCuda;
  EXPECT_EQ(analytic_costs()->price(view, 1, gpu).value(), TaskCost());
}

TEST(AnalyticCosts, TakeTheRatesOfKernels) {
  DeviceKind gpu = kDevice;
  TaskFacts facts{"k", "task", 2e9, 8e6};
  const auto price = [&](KernelFamily family) {
    facts.family = family;
    return analytic_costs()->price(facts, 1, gpu).value();
  };
  for (const KernelFamily family :
       {KernelFamily::kConvolution, KernelFamily::kAttention, KernelFamily::kFlashAttention, KernelFamily::kBatchNorm})
    EXPECT_EQ(price(family), price(KernelFamily::kOther));  // none are said
  gpu.kernels.convolution = FlopRates(5e11);
  gpu.kernels.attention = FlopRates(2.5e11);
  gpu.kernels.batch_norm = 1e8;
  gpu.kernels.batch_norm_channels_last = 2e8;
  EXPECT_DOUBLE_EQ(price(KernelFamily::kProduct).forward_ns, 2e6 + 500);
  EXPECT_DOUBLE_EQ(price(KernelFamily::kConvolution).forward_ns, 4e6 + 500);
  EXPECT_DOUBLE_EQ(price(KernelFamily::kAttention).forward_ns, 8e6 + 500);
  EXPECT_DOUBLE_EQ(price(KernelFamily::kAttention).input_gradient_ns, 2e7 + 500);    // five products instead of two
  EXPECT_EQ(price(KernelFamily::kFlashAttention), price(KernelFamily::kAttention));  // the device has none
  gpu.kernels.flash_attention = FlopRates(1e12);
  EXPECT_DOUBLE_EQ(price(KernelFamily::kFlashAttention).forward_ns, 2e6 + 500);
  EXPECT_DOUBLE_EQ(price(KernelFamily::kFlashAttention).input_gradient_ns, 5e6 + 500);
  EXPECT_DOUBLE_EQ(price(KernelFamily::kAttention).forward_ns, 8e6 + 500);
  EXPECT_DOUBLE_EQ(price(KernelFamily::kBatchNorm).forward_ns, 1e7 + 500);  // a million floats, read and written
  EXPECT_DOUBLE_EQ(price(KernelFamily::kBatchNormChannelsLast).forward_ns, 5e6 + 500);
}

TEST(SizeCurve, IsLinearBetweenItsEntriesOnly) {
  const SizeCurve curve{{1, {.forward_ns = 100}}, {4, {.forward_ns = 130}}, {8, {.forward_ns = 250}}};
  EXPECT_DOUBLE_EQ(at_samples(curve, 1).forward_ns, 100);
  EXPECT_DOUBLE_EQ(at_samples(curve, 2).forward_ns, 110);
  EXPECT_DOUBLE_EQ(at_samples(curve, 6).forward_ns, 190);
  EXPECT_DOUBLE_EQ(at_samples(curve, 12).forward_ns, 370);
  EXPECT_DOUBLE_EQ(at_samples({{4, {.forward_ns = 40}}}, 2).forward_ns, 20);
}

TEST(TableCosts, NameTheTaskTheyDoNotKnow) {
  const auto model = table_costs({{"known", {{1, {.forward_ns = 3}}}}});
  EXPECT_DOUBLE_EQ(model->price({"known", "add"}, 2, kDevice)->forward_ns, 6);
  EXPECT_NE(model->price({"other", "add 'layer1'"}, 2, kDevice).diagnostic().message.find("add 'layer1'"),
            std::string::npos);
}

ProfileDatabase sample_database() {
  ProfileDatabase database;
  database.describe("cpu-1", {{"device", "cpu"}, {"library", "libtorch 2.11.0"}});
  for (const uint64_t samples : {1, 2, 8}) {
    const double n = static_cast<double>(samples);
    database.add("cpu-1", "core.linear f32[B,4]x[4,4]", samples, {10 * n, 11 * n, 12 * n, 10 * n, 16 * n, -8 * n, 3});
  }
  database.add("cpu-1", "core.relu f32[B,4]", 1, {.forward_ns = 1.5});
  const TaskCost summed{.forward_ns = 10, .input_gradient_ns = 8, .weight_gradient_ns = 12, .saved_bytes = 100};
  database.add_block("cpu-2", "2b1c", 4, {{.forward_ns = 8, .saved_bytes = 50, .together_ns = 30}, summed});
  database.add_exchange("cpu-1", "gloo.message", {{2, {{1024, 60000.5}, {1 << 20, 900000}}}});
  return database;
}

TEST(ProfileDatabase, ReadsWhatItPrints) {
  const ProfileDatabase database = sample_database();
  EXPECT_EQ(ProfileDatabase::parse(database.print(), "p.json").value(), database);
  EXPECT_EQ(database.entries("cpu-1"), 2u);
}

TEST(ProfileDatabase, FingerprintFollowsTheNumbers) {
  ProfileDatabase database = sample_database();
  const std::string before = database.fingerprint("cpu-1");
  EXPECT_EQ(before, sample_database().fingerprint("cpu-1"));
  database.add("cpu-2", "core.relu f32[B,4]", 1, {.forward_ns = 2});
  EXPECT_EQ(before, database.fingerprint("cpu-1"));
  database.add("cpu-1", "core.relu f32[B,4]", 1, {.forward_ns = 2});
  EXPECT_NE(before, database.fingerprint("cpu-1"));
}

TEST(MeasuredCosts, FallBackOnlyWhereNothingWasMeasured) {
  const std::shared_ptr<const CostModel> analytic = analytic_costs();
  const auto model = measured_costs(sample_database(), {{kDevice.name, "cpu-1"}}, analytic);
  EXPECT_DOUBLE_EQ(model->price({"core.linear f32[B,4]x[4,4]", ""}, 4, kDevice)->forward_ns, 40);
  EXPECT_DOUBLE_EQ(model->price({"core.exp f32[B]", ""}, 4, kDevice)->forward_ns, 500);
  const auto strict = measured_costs(sample_database(), {{kDevice.name, "cpu-1"}}, nullptr);
  EXPECT_FALSE(strict->price({"core.exp f32[B]", "exp"}, 4, kDevice).ok());
}

TEST(MeasuredCosts, HoldForTheKindsThatWereMeasuredAlone) {
  const std::shared_ptr<const CostModel> analytic = analytic_costs();
  DeviceKind other = kDevice;
  other.name = "h100";
  const TaskFacts linear{"core.linear f32[B,4]x[4,4]", "linear"};
  const auto model = measured_costs(sample_database(), {{kDevice.name, "cpu-1"}}, analytic);
  EXPECT_DOUBLE_EQ(model->price(linear, 4, kDevice)->forward_ns, 40);
  EXPECT_EQ(model->price(linear, 4, other).value(), analytic->price(linear, 4, other).value());
  const auto strict = measured_costs(sample_database(), {{kDevice.name, "cpu-1"}}, nullptr);
  EXPECT_EQ(strict->price(linear, 4, other).diagnostic().message, "device kind 'h100' was never measured");
}

TEST(MeasuredCosts, AreNamedByTheMeasurementsThatTheyUse) {
  const ProfileDatabase database = sample_database();
  const std::string first = database.fingerprint("cpu-1"), second = database.fingerprint("cpu-2");
  EXPECT_EQ(measured_costs(database, {{"d", "cpu-1"}, {"e", "cpu-1"}}, nullptr)->fingerprint(), first);
  const std::string both = measured_costs(database, {{"d", "cpu-1"}, {"e", "cpu-2"}}, nullptr)->fingerprint();
  EXPECT_TRUE(both == first + second || both == second + first) << both;
  EXPECT_EQ(measured_costs(database, {}, analytic_costs())->fingerprint(), "");
}

// An otherwise empty database with one section.
std::string with(const std::string& section, const std::string& contents) {
  std::string text = R"({"rannc_profile":2)";
  for (const std::string name : {"environments", "tasks", "blocks", "exchanges"}) {
    text += ",\"" + name + "\":" + (name == section ? contents : "{}");
  }
  return text + "}";
}

struct Refused {
  std::string text, message, place;
};

void expect_refused(const Refused& refused) {
  const auto result = ProfileDatabase::parse(refused.text, "p.json");
  ASSERT_FALSE(result.ok()) << refused.text;
  EXPECT_EQ(result.diagnostic().where.file, "p.json");
  EXPECT_EQ(result.diagnostic().where.node, refused.place) << result.diagnostic().str();
  EXPECT_NE(result.diagnostic().message.find(refused.message), std::string::npos) << result.diagnostic().str();
}

TEST(ProfileDatabase, RejectsForeignOlderAndNewerFiles) {
  expect_refused({"[]", "not a profile database", ""});
  expect_refused({R"({"rannc_profile":"2"})", "must be an integer", "rannc_profile"});
  expect_refused({R"({"rannc_profile":1,"entries":{}})",
                  "format version 1 is not supported, this program reads version 2", "rannc_profile"});
  expect_refused({R"({"rannc_profile":3})", "version 3", "rannc_profile"});
  expect_refused({R"({"rannc_profile":2,"entries":{}})", "unknown section", "entries"});
  expect_refused({R"({"rannc_profile":2})", "is missing", "environments"});
}

TEST(ProfileDatabase, RejectsWhatIsNoMeasurementAndSaysWhere) {
  expect_refused({with("tasks", "7"), "must be an object", "tasks"});
  expect_refused({with("environments", R"({"e":{"device":7}})"), "must be a text", "environments/e/device"});
  expect_refused({with("tasks", R"({"e":{"k":3}})"), "maps numbers of samples", "tasks/e/k"});
  for (const char* samples : {"0", "-1", "01", "1e2", "", "99999999999"}) {
    expect_refused({with("tasks", std::string(R"({"e":{"k":{")") + samples + R"(":{}}}})"),
                    "is not a number of samples", "tasks/e/k"});
  }
  expect_refused({with("tasks", R"({"e":{"k":{"1":{"forward_ns":-1}}}})"), "is -1", "tasks/e/k/1/forward_ns"});
  expect_refused({with("tasks", R"({"e":{"k":{"1":{"forward_ns":1e30}}}})"), "is 1e+30", "tasks/e/k/1/forward_ns"});
  expect_refused(
      {with("tasks", R"({"e":{"k":{"1":{"forward_ns":null}}}})"), "must be a number", "tasks/e/k/1/forward_ns"});
  expect_refused({with("tasks", R"({"e":{"k":{"1":{"forward":1}}}})"), "unknown quantity 'forward'", "tasks/e/k/1"});
  expect_refused({with("blocks", R"({"e":{"k":{"1":{"measured":{}}}}})"), "'summed'", "blocks/e/k/1"});
  expect_refused({with("exchanges", R"({"e":{"x":{"1":{"8":1}}}})"), "is not a number of devices", "exchanges/e/x"});
  expect_refused({with("exchanges", R"({"e":{"x":{"2":{"8":-1}}}})"), "is -1", "exchanges/e/x/2/8"});
}

TEST(ProfileDatabase, RejectsMembersThatOccurTwice) {
  expect_refused({with("tasks", R"({"e":{"k":{"1":{}},"j":{"1":{}},"k":{"1":{}}}})"), "occurs twice", "tasks/e/k"});
  expect_refused({with("tasks", R"({"e":{"k":{"1":{"forward_ns":1,"forward_ns":2}}}})"), "occurs twice",
                  "tasks/e/k/1/forward_ns"});
  EXPECT_TRUE(ProfileDatabase::parse(with("tasks", R"({"e":{"k":{"1":{}}},"f":{"k":{"1":{}}}})"), "p.json").ok());
}

TEST(ProfileDatabase, EveryTruncationIsRefusedWithALine) {
  const std::string whole = sample_database().print();
  const size_t end = whole.find_last_of('}');
  for (size_t size = 0; size <= end; ++size) {
    const auto result = ProfileDatabase::parse(std::string_view(whole).substr(0, size), "p.json");
    ASSERT_FALSE(result.ok()) << size;
    EXPECT_GT(result.diagnostic().where.line, 0u) << size;
  }
  const auto nan = ProfileDatabase::parse("{\n \"rannc_profile\": NaN}", "p.json");
  EXPECT_EQ(nan.diagnostic().where.line, 2u);
  EXPECT_NE(nan.diagnostic().message.find("not JSON"), std::string::npos);
  EXPECT_FALSE(ProfileDatabase::parse("{\"rannc_profile\": 1e999}", "p.json").ok());
}

TEST(ProfileDatabase, BytesDoNotDependOnTheOrderOfMeasuring) {
  ProfileDatabase forward, backward;
  std::mt19937_64 random(7);
  std::vector<std::pair<std::string, TaskCost>> entries;
  for (int i = 0; i < 50; ++i) {
    entries.push_back({"key" + std::to_string(random()), {.forward_ns = static_cast<double>(random() >> 11) / 3}});
  }
  for (const auto& [key, cost] : entries) forward.add("e", key, 2, cost);
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry)
    backward.add("e", entry->first, 2, entry->second);
  EXPECT_EQ(forward.print(), backward.print());
  const ProfileDatabase again = ProfileDatabase::parse(forward.print(), "p.json").value();
  EXPECT_EQ(again, forward);
  EXPECT_EQ(again.print(), forward.print());
}

TEST(ProfileDatabase, LearnsFromBlocksWhatRunningTogetherMakesOfSums) {
  const ProfileDatabase database = sample_database();
  EXPECT_EQ(database.fusion("cpu-2").at(4), (Fusion{0.8, 1.5, 0.5, 0.8}));
  EXPECT_TRUE(database.fusion("cpu-1").empty());
}

TEST(MeasuredCosts, CorrectTasksOfRByMeasuredRs) {
  ProfileDatabase database;
  database.add("cpu-3", "core.exp", 4, {.forward_ns = 10, .recompute_ns = 10});
  const TaskCost summed{.forward_ns = 100, .recompute_ns = 40};
  database.add_block("cpu-3", "2b1c", 4, {{.forward_ns = 90, .recompute_ns = 50}, summed});
  EXPECT_EQ(database.fusion("cpu-3").at(4), (Fusion{0.9, 1, 1, 1.25}));
  EXPECT_DOUBLE_EQ(
      measured_costs(database, {{kDevice.name, "cpu-3"}}, nullptr)->price({"core.exp", ""}, 4, kDevice)->rebuild_ns(),
      12.5);
  database.add_block("cpu-3", "2b1c", 4, {{.forward_ns = 90}, summed});
  EXPECT_EQ(database.fusion("cpu-3").at(4), (Fusion{0.9, 1, 1, 0.9})) << "an R that was not measured";
}

TEST(MeasuredCosts, MultiplySumsByWhatBlocksTeach) {
  ProfileDatabase database = sample_database();
  database.add("cpu-2", "core.linear", 4,
               {.forward_ns = 10, .input_gradient_ns = 20, .saved_bytes = 40, .together_ns = 18});
  database.add_block("cpu-2", "77aa", 8, {{.forward_ns = 4, .together_ns = 9}, {.forward_ns = 10, .together_ns = 6}});
  const auto model = measured_costs(std::move(database), {{kDevice.name, "cpu-2"}}, nullptr);
  const TaskCost at_four = model->price({"core.linear", ""}, 4, kDevice).value();
  EXPECT_DOUBLE_EQ(at_four.forward_ns, 8);
  EXPECT_DOUBLE_EQ(at_four.backward_ns(), 27);
  EXPECT_DOUBLE_EQ(at_four.input_gradient_ns, 30);
  EXPECT_DOUBLE_EQ(at_four.saved_bytes, 20);
  EXPECT_DOUBLE_EQ(model->price({"core.linear", ""}, 8, kDevice)->forward_ns, 2 * 10 * 0.4);
  EXPECT_DOUBLE_EQ(model->price({"core.linear", ""}, 6, kDevice)->forward_ns, 1.5 * 10 * 0.6);
}

TEST(SizeCurve, MonotoneTimesPoolWhatFalls) {
  SizeCurve curve{{1, {.forward_ns = 5, .saved_bytes = 9}},
                  {2, {.forward_ns = 3, .saved_bytes = 8}},
                  {4, {.forward_ns = 7}},
                  {8, {.forward_ns = 6.5}},
                  {16, {.forward_ns = 3.3}}};
  make_monotone(curve);
  EXPECT_DOUBLE_EQ(curve[1].forward_ns, 4);
  EXPECT_DOUBLE_EQ(curve[2].forward_ns, 4);
  for (const uint64_t samples : {4, 8, 16}) EXPECT_DOUBLE_EQ(curve[samples].forward_ns, 5.6);
  EXPECT_DOUBLE_EQ(curve[2].saved_bytes, 8);
  const SizeCurve once = curve;
  make_monotone(curve);
  EXPECT_EQ(curve, once);
}

TEST(ExchangeTable, IsLinearBetweenMeasurements) {
  const TimeByBytes times{{100, 1000}, {200, 1400}, {400, 1600}};
  EXPECT_DOUBLE_EQ(time_at(times, 150), 1200);
  EXPECT_DOUBLE_EQ(time_at(times, 50), 800);
  EXPECT_DOUBLE_EQ(time_at(times, 800), 2000);
  EXPECT_DOUBLE_EQ(time_at(times, 0), 0);
  const ExchangeTable table{{2, times}, {4, {{100, 3000}, {200, 3400}}}};
  EXPECT_DOUBLE_EQ(exchange_ns(table, 1, 100), 0);
  EXPECT_DOUBLE_EQ(exchange_ns(table, 2, 200), 1400);
  EXPECT_DOUBLE_EQ(exchange_ns(table, 3, 100), 2000);
  EXPECT_DOUBLE_EQ(exchange_ns(table, 7, 100), 6000);
}

TEST(FitLink, FindsTheLineThatMadeTheTimes) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 200; ++i) {
    const Link link{1e6 * static_cast<double>(1 + random() % 100000), static_cast<double>(random() % 100000)};
    TimeByBytes times;
    for (uint64_t bytes = 1024; bytes <= 1 << 25; bytes *= 8)
      times[bytes] = link.transfer_ns(static_cast<double>(bytes));
    const Link fitted = fit_link(times);
    EXPECT_NEAR(fitted.bytes_per_second / link.bytes_per_second, 1, 1e-6) << i;
    EXPECT_NEAR(fitted.latency_ns, link.latency_ns, 1e-3 + 1e-6 * link.latency_ns) << i;
  }
}

TEST(FitLink, IsALinkWhateverTheTimes) {
  const Link flat = fit_link({{1024, 9000}, {1 << 20, 9000}, {1 << 25, 8000}});
  EXPECT_DOUBLE_EQ(flat.bytes_per_second, 1e15);
  EXPECT_NEAR(flat.latency_ns, 8600, 300);
  const Link origin = fit_link({{1000, 10}, {1000000, 1000000}});  // a line through these has a negative latency
  EXPECT_EQ(origin.latency_ns, 0);
  EXPECT_GT(origin.bytes_per_second, 0);
  EXPECT_GT(fit_link({{1000, 0}}).bytes_per_second, 0);
}

TEST(FitLink, AllReducesLimitTheBandwidth) {
  const ExchangeTable messages{{2, {{1000, 2000}, {1000000, 2000}}}};
  const ExchangeTable sums{{4, {{1000, 3000}, {1001000, 1003000}}}};
  const Link link = fit_link(&messages, &sums);
  EXPECT_NEAR(link.latency_ns, 2000, 1);
  EXPECT_NEAR(link.bytes_per_second, 1.5e9, 1);
  EXPECT_NEAR(fit_link(nullptr, &sums).latency_ns, 2000, 1);
  EXPECT_NEAR(fit_link(&messages, nullptr).bytes_per_second, 1e15, 1);
}

TEST(ProfileDatabase, MutatedFilesNeverCrash) {
  std::mt19937_64 random(5);
  const std::string original = sample_database().print();
  for (int i = 0; i < 3000; ++i) {
    std::string text = original;
    for (uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % text.size();
      if (random() % 2 == 0)
        text[at] = static_cast<char>(random() % 128);
      else
        text.erase(at, 1 + random() % 5);
    }
    const auto result = ProfileDatabase::parse(text, "mutated");
    if (!result.ok()) {
      EXPECT_EQ(result.diagnostic().where.file, "mutated");
      continue;
    }
    EXPECT_EQ(ProfileDatabase::parse(result->print(), "again").value(), *result);
  }
}

}  // namespace
}  // namespace rannc::partition
