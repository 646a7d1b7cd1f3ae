"""The agent server of NeMo Gym for khost's episodes: put this folder into `responses_api_agents/khost_agent` of a Gym
checkout, with khost_gym.py and khost_episodes.py beside it, and name it in a configuration such as khost_agent.yaml."""

import khost_episodes as khost
from khost_gym import rollout
from nemo_gym.base_resources_server import BaseRunRequest, BaseVerifyResponse
from nemo_gym.base_responses_api_agent import BaseResponsesAPIAgentConfig, SimpleResponsesAPIAgent
from nemo_gym.config_types import ModelServerRef
from nemo_gym.server_utils import get_response_json, raise_for_status
from pydantic import ConfigDict


class KhostAgentConfig(BaseResponsesAPIAgentConfig):
    """`url`, `token_file`: of the service. `episode`: fields of POST /v1/episodes."""

    model_server: ModelServerRef
    url: str = "http://127.0.0.1:8420"
    token_file: str | None = None
    patience_s: float = 1800.0
    tries: int = 3
    episode: dict = {}


class KhostRunRequest(BaseRunRequest):
    """A row of the data set: `khost_task` is the hash or id of a task that the service has loaded."""

    model_config = ConfigDict(extra="allow")
    khost_task: str


class KhostRunResponse(BaseVerifyResponse):
    """What `rollout` says."""

    model_config = ConfigDict(extra="allow")


class KhostAgent(SimpleResponsesAPIAgent):
    """`/run` plays an episode; there is no `/v1/responses`, since khost has the loop."""

    config: KhostAgentConfig

    async def responses(self, request, response, body):
        """Not served."""
        raise NotImplementedError("khost's agent plays whole episodes: ask /run")

    async def run(self, body: KhostRunRequest) -> KhostRunResponse:
        """One rollout of one row."""
        config = self.config
        episodes = khost.Episodes(config.url, token_file=config.token_file, episode=config.episode,
                                  patience_s=config.patience_s, tries=config.tries)

        async def ask(params):
            answer = await self.server_client.post(
                server_name=config.model_server.name, url_path=self.url_path_for_run("/v1/responses", body),
                json=params)
            await raise_for_status(answer)
            return await get_response_json(answer)

        params = body.responses_create_params.model_dump(exclude_unset=True)
        result = await rollout(episodes, body.khost_task, params, ask)
        return KhostRunResponse.model_validate({**body.model_dump(exclude={"responses_create_params"}), **result})


if __name__ == "__main__":
    KhostAgent.run_webserver()
