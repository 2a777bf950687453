// PowerSGD as a free layer: gradients of matrices travel as two thin factors, over whatever averages them otherwise.
//
// T. Vogels, S. P. Karimireddy, M. Jaggi: PowerSGD: Practical Low-Rank Gradient Compression for Distributed
// Optimization (2019), algorithm 1 with warm start and error feedback. In each step and for each matrix, with r =
// `rank`:
//
//   M = G + E            what this rank has learned, and what it could not send before    rows x columns
//   P = mean over ranks of M Q, its columns made orthonormal (Gram-Schmidt)               rows x r
//   Q = mean over ranks of transpose(M) P; the next step begins with it                   columns x r
//   G = P transpose(Q)   the same bits on all ranks
//   E = M - G            STATE "error" of this rank, in the layout of the gradients
//
// So (rows + columns) r numbers are sent instead of rows x columns. A parameter that would not be halved is sent whole,
// with the first factors: two messages for a bucket. Matrices are read as they lie in memory: the outermost dimension
// has the rows. Threads: see cohort/api/strategy.h; what reduce_bucket needs of the model is kept from configure_model.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <cohort/sdk/strategy.hpp>

namespace {

namespace sdk = cohort::sdk;

constexpr const char* kError = "error";

// A gradient as a matrix, row by row.
struct Matrix {
  float* data;
  uint64_t rows, columns;
};

// Numbers between -1 and 1 that depend on the seed, the parameter and their index alone: splitmix64 (S. Vigna, 2015).
float number_at(uint64_t seed, uint32_t parameter, uint64_t index) {
  uint64_t z = seed + (uint64_t{parameter} << 40) + (index + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return static_cast<float>(static_cast<double>(z >> 11) * 0x1p-52 - 1.0);
}

// p = m q, with q of `rank` columns.
void multiply(const Matrix& m, const float* q, uint64_t rank, float* p) {
  std::fill_n(p, m.rows * rank, 0.0f);
  for (uint64_t i = 0; i < m.rows; ++i) {
    for (uint64_t j = 0; j < m.columns; ++j) {
      const float value = m.data[i * m.columns + j];
      for (uint64_t k = 0; k < rank; ++k) p[i * rank + k] += value * q[j * rank + k];
    }
  }
}

// q = transpose(m) p
void multiply_transposed(const Matrix& m, const float* p, uint64_t rank, float* q) {
  std::fill_n(q, m.columns * rank, 0.0f);
  for (uint64_t i = 0; i < m.rows; ++i) {
    for (uint64_t j = 0; j < m.columns; ++j) {
      const float value = m.data[i * m.columns + j];
      for (uint64_t k = 0; k < rank; ++k) q[j * rank + k] += value * p[i * rank + k];
    }
  }
}

// Gram-Schmidt, column after column; a column that depends on those before it becomes zero.
void orthonormalize(float* p, uint64_t rows, uint64_t rank) {
  constexpr double kDependent = 1e-6;  // of the column's first length: what is left then is rounding
  const auto dot = [&](uint64_t a, uint64_t b) {
    double sum = 0;
    for (uint64_t i = 0; i < rows; ++i) sum += double{p[i * rank + a]} * double{p[i * rank + b]};
    return sum;
  };
  for (uint64_t k = 0; k < rank; ++k) {
    const double before = std::sqrt(dot(k, k));
    for (uint64_t other = 0; other < k; ++other) {
      const auto share = static_cast<float>(dot(k, other));
      for (uint64_t i = 0; i < rows; ++i) p[i * rank + k] -= share * p[i * rank + other];
    }
    const double length = std::sqrt(dot(k, k));
    const auto factor = static_cast<float>(length > kDependent * before ? 1.0 / length : 0.0);
    for (uint64_t i = 0; i < rows; ++i) p[i * rank + k] *= factor;
  }
}

// m = p transpose(q), and error = what m was before, less that.
void expand(const float* p, const float* q, uint64_t rank, const Matrix& m, float* error) {
  for (uint64_t i = 0; i < m.rows; ++i) {
    for (uint64_t j = 0; j < m.columns; ++j) {
      float value = 0;
      for (uint64_t k = 0; k < rank; ++k) value += p[i * rank + k] * q[j * rank + k];
      const uint64_t at = i * m.columns + j;
      if (error) error[at] = m.data[at] - value;
      m.data[at] = value;
    }
  }
}

// The dimension whose elements lie farthest apart has the rows.
uint64_t rows_of(const cohort_tensor& weight) {
  int32_t outermost = 0;
  for (int32_t i = 1; i < weight.ndim; ++i) {
    if (weight.strides[i] > weight.strides[outermost]) outermost = i;
  }
  return weight.ndim > 1 ? static_cast<uint64_t>(weight.shape[outermost]) : 1;
}

class PowerSgd final : public sdk::Strategy<PowerSgd> {
 public:
  void create(const sdk::Options& options) {
    rank_ = static_cast<uint64_t>(options.integer("rank"));
    warmup_steps_ = static_cast<uint64_t>(options.integer("warmup_steps"));
    has_feedback_ = options.flag("error_feedback");
  }

  void configure_model() {
    below().configure_model();
    rows_.clear();
    for (uint32_t id = 0; id < host().num_params(); ++id) rows_.push_back(rows_of(host().param(id).raw()));
  }

  void plan_buckets(cohort_bucket_plan& plan) {
    below().plan_buckets(plan);
    if (has_feedback_) host().buckets().want(COHORT_BUCKET_STATE, kError);
  }

  void layout_ready(int32_t reason) {
    below().layout_ready(reason);
    if (reason == COHORT_LAYOUT_NEW) factors_.clear();
  }

  void reduce_bucket(const cohort_step& step, const cohort_bucket& bucket) {
    const bool is_alone = host().comm(bucket).size() == 1;
    if (is_alone || bucket.dtype != COHORT_FLOAT32 || step.step < warmup_steps_ || !has_factors(bucket)) {
      return below().reduce_bucket(step, bucket);
    }
    float* const gradient = host().buckets().view(bucket.index, COHORT_BUCKET_GRAD).span<float>().data();
    float* const error =
        has_feedback_ ? host().buckets().view(bucket.index, COHORT_BUCKET_STATE, kError).span<float>().data() : nullptr;
    begin_factors(bucket, gradient, error);
    average(bucket, sent_);
    swap_factors(bucket, gradient);
    average(bucket, second_);
    finish_factors(bucket, gradient, error);
  }

  void save_state() {
    below().save_state();
    for (const auto& [id, q] : factors_) host().save(key_of(id).c_str(), q.data(), q.size() * sizeof(float));
  }
  void load_state() {
    below().load_state();
    for (uint32_t id = 0; id < rows_.size(); ++id) {
      std::vector<float> q(columns_of(id) * rank_);
      if (host().load(key_of(id).c_str(), q.data(), q.size() * sizeof(float))) factors_[id] = std::move(q);
    }
  }

 private:
  uint64_t rank_ = 0, warmup_steps_ = 0;
  bool has_feedback_ = true;
  std::vector<uint64_t> rows_;                      // by parameter
  std::map<uint32_t, std::vector<float>> factors_;  // Q by parameter; the same on all ranks
  std::vector<float> sent_, second_;                // of a bucket: P and what is sent whole; Q

  static std::string key_of(uint32_t id) { return "q/" + std::to_string(id); }
  uint64_t columns_of(uint32_t id) const {
    const sdk::TensorView weight = host().param(id);
    return rows_[id] > 0 ? weight.numel() / rows_[id] : 0;
  }
  bool is_matrix(const cohort_bucket_part& part) const {
    const uint64_t rows = rows_[part.id], columns = rows > 0 ? part.numel / rows : 0;
    return rows > 1 && columns > 1 && 2 * (rows + columns) * rank_ <= part.numel;
  }
  bool has_factors(const cohort_bucket& bucket) const {
    return std::any_of(bucket.parts, bucket.parts + bucket.num_parts,
                       [this](const cohort_bucket_part& part) { return is_matrix(part); });
  }
  Matrix matrix_of(const cohort_bucket_part& part, float* gradient) const {
    return {gradient + part.offset, rows_[part.id], part.numel / rows_[part.id]};
  }

  // The factor that the last step has left, or one of chance.
  std::vector<float>& factor_of(const cohort_bucket_part& part, const Matrix& m) {
    std::vector<float>& q = factors_[part.id];
    if (q.size() == m.columns * rank_) return q;
    q.resize(m.columns * rank_);
    const uint64_t seed = host().job().seed;  // the same on all ranks, so that their factors are
    for (uint64_t i = 0; i < q.size(); ++i) q[i] = number_at(seed, part.id, i);
    return q;
  }

  // Puts M where the gradients are, and P and the gradients that are sent whole into sent_.
  void begin_factors(const cohort_bucket& bucket, float* gradient, const float* error) {
    sent_.clear();
    for (uint64_t i = 0; i < bucket.num_parts; ++i) {
      const cohort_bucket_part& part = bucket.parts[i];
      float* const own = gradient + part.offset;
      if (!is_matrix(part)) {
        sent_.insert(sent_.end(), own, own + part.numel);
        continue;
      }
      const Matrix m = matrix_of(part, gradient);
      for (uint64_t at = 0; error && at < part.numel; ++at) own[at] += error[part.offset + at];
      sent_.resize(sent_.size() + m.rows * rank_);
      multiply(m, factor_of(part, m).data(), rank_, sent_.data() + sent_.size() - m.rows * rank_);
    }
  }

  // Takes what was sent whole out of sent_, makes P orthonormal there, and puts Q into second_.
  void swap_factors(const cohort_bucket& bucket, float* gradient) {
    second_.clear();
    float* next = sent_.data();
    for (uint64_t i = 0; i < bucket.num_parts; ++i) {
      const cohort_bucket_part& part = bucket.parts[i];
      if (!is_matrix(part)) {
        std::copy_n(next, part.numel, gradient + part.offset);
        next += part.numel;
        continue;
      }
      const Matrix m = matrix_of(part, gradient);
      orthonormalize(next, m.rows, rank_);
      second_.resize(second_.size() + m.columns * rank_);
      multiply_transposed(m, next, rank_, second_.data() + second_.size() - m.columns * rank_);
      next += m.rows * rank_;
    }
  }

  void finish_factors(const cohort_bucket& bucket, float* gradient, float* error) {
    const float *p = sent_.data(), *q = second_.data();
    for (uint64_t i = 0; i < bucket.num_parts; ++i) {
      const cohort_bucket_part& part = bucket.parts[i];
      if (!is_matrix(part)) {
        p += part.numel;
        continue;
      }
      const Matrix m = matrix_of(part, gradient);
      expand(p, q, rank_, m, error ? error + part.offset : nullptr);
      factors_[part.id].assign(q, q + m.columns * rank_);
      p += m.rows * rank_;
      q += m.columns * rank_;
    }
  }

  void average(const cohort_bucket& bucket, std::vector<float>& values) const {
    host().comm(bucket).all_reduce({values.data(), values.size(), bucket.dtype}, COHORT_REDUCE_MEAN);
  }
};

sdk::Answer supports(const sdk::Query& query) {
  if (query.use() == COHORT_USE_DEVICE_TYPE && query.value() != COHORT_DEVICE_CPU) {
    return sdk::no("its matrices are multiplied on CPUs", "leave the layer out");
  }
  if (query.use() == COHORT_USE_BELOW) {
    const std::string_view below = query.below_spec().substr(0, query.below_spec().find_first_of(":,"));
    const bool averages = below == "ddp" || below == "ddp_spawn" || below == "ddp2";
    if (!averages) return sdk::no("it stands in for the mean of gradients", "put it over ddp, ddp_spawn or ddp2");
  }
  // G depends on the mean of M over the ranks alone, because M Q and transpose(M) P are linear in M: a rank without
  // data counts as zeros there, as under ddp. Its E goes on, so that the mean of E stays what all steps together have
  // not sent.
  if (query.use() == COHORT_USE_JOIN) return sdk::yes();
  return sdk::yes_to_known(query);
}

constexpr cohort_option kOptions[] = {
    sdk::option("rank", "int[1..64]", "2", "columns of the factors: more of them are closer to the gradient"),
    sdk::option("warmup_steps", "int[0..1000000000]", "0", "steps at first that send gradients whole"),
    sdk::option("error_feedback", "bool", "true", "what a step cannot send is added to the next gradient"),
};

constexpr cohort_component kPowerSgd = sdk::strategy<PowerSgd>("powersgd", "sends gradients of matrices as two factors")
                                           .inherits("*")
                                           .options(kOptions)
                                           .supports<supports>();

}  // namespace

COHORT_SDK_PLUGIN("org.example.powersgd", "1.0.0", "Example", "MIT", kPowerSgd)
