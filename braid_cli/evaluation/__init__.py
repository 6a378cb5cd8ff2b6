"""Evaluation on judged questions.

- ``run`` compares ``configurations``; ``recording_stages`` records the input of the last stage; ``metrics`` scores runs
- ``calibration`` measures the calibration of answers' confidence; ``worst_questions`` explains the worst questions
- ``show`` renders on a terminal, ``plots`` and ``published_figures`` for the documentation
"""
