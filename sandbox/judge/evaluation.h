// One evaluation from files to verdict; single use, one thread.
#pragma once

#include <memory>
#include <string>

#include "sandbox/abi/build.h"
#include "sandbox/judge/service.h"
#include "sandbox/judge/subject.h"
#include "sandbox/verdict.h"

namespace khost::judge {

class Evaluation {
 public:
  Evaluation(Service& service, const Json& request) : service_(service), request_(request) {}
  Result<Json> run();

 private:
  bool open_task();
  bool build_kernels();
  bool make_plan();
  Result<sandbox::Plan> record();
  Result<sandbox::Plan> derive();
  bool verify();
  bool time();
  bool check(Subject& subject, const Window& window, std::size_t set, const char* stage);
  bool ready(Subject& subject, const char* stage);
  std::unique_ptr<Subject> fresh(const char* stage);
  bool candidate_block(Subject& subject, std::vector<double>& samples);
  enum class Process { fresh, resident };
  Result<double> baseline_block(const std::string& kind, Process process);
  void measure_baseline(const std::string& kind);
  void calibrate();

  Service& service_;
  const Json& request_;
  sandbox::Verdict verdict_;
  Zygote* zygote_ = nullptr;
  std::shared_ptr<Session> session_;
  std::shared_ptr<const Batch> batch_;
  std::map<std::string, std::string> files_;
  sandbox::Built built_;
  sandbox::Plan plan_;
  std::vector<Tolerance> tolerance_;
  std::unique_ptr<Subject> subject_;
  int threads_ = 1;
  int dropped_ = 0;
};

}  // namespace khost::judge
